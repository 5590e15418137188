"""Servers with wrong clocks: what the joiner and the daily run make of their requests is counted, and said."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.reports.ingestion import EARLIER_ONLY
from tests.components.examples.sample_files import read_examples
from tests.components.logs.sample_logs import run_executor, write_days
from tests.components.logs.sample_sources import DAYS, MIDNIGHT
from tests.components.request_log.sample_requests import INPUTS, PLAN, SERVED, Clock, request, write
from tests.components.stream.sample_stream import arrive, examples_of, files_below, job_of
from tests.errors import mentions

pytestmark = pytest.mark.slow

NOON, REQUESTS, DAY_S = MIDNIGHT[DAYS[1]] + 43_200, 5, 86_400
WRONG = [f"r{number}" for number in range(REQUESTS)]


def logs_of(root: Path, ahead_s: int) -> Path:
    """Writes requests of a server with a wrong clock and of one with a right one, a click on each, and a day before."""
    write(root / "requests", PLAN, [request(PLAN, 2 * REQUESTS, NOON - DAY_S, 1)[0]])
    requests, clicks = [], []
    for number in range(2 * REQUESTS):
        at_s = NOON + 10 * number
        offset = ahead_s if number < REQUESTS else 0
        requests.append(request(PLAN, number, at_s + offset, 1)[0])
        clicks.append({"of": f"r{number}", "clicked": at_s + 1, "watched": 0.5})
    for part in (requests[:REQUESTS], requests[REQUESTS:]):
        write(root / "requests", PLAN, part)
    write_days(root / "clicks", "parquet", {DAYS[0]: clicks[:1], DAYS[1]: clicks})
    return root


def streamed(root: Path, directory: Path) -> tuple[dict[str, int], dict[str, int], list[dict[str, Any]]]:
    """Returns labels by request, counts, and the dead letters of a joiner that was there before the files."""
    from sangam.components.stream.joiner import Joiner

    job = job_of(directory, SERVED.parts, INPUTS, lateness_s=60, idle_s=30)
    clock = Clock(NOON + 10 * 2 * REQUESTS)
    joiner = Joiner(job, clock, clock)
    joiner.step()
    names = [name for name in files_below(root) if "/." not in name and DAYS[0] not in name]
    arrive(root, job, names)
    for _ in range(3):
        while joiner.step(is_last=True):
            pass
        clock.now += 3 * 3600
    labels = {row["request_id"][0].decode(): row["like"][0] for row in examples_of(job)}
    return labels, dict(joiner.counts), [json.loads(file.read_text()) for file in Path(job.dead_letters).glob("*")]


def ingested(root: Path, directory: Path) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Returns labels by request, counts of the join, and the notes of a daily run."""
    properties = {
        "logs": SERVED.model_copy(update={"train_days": 1}).model_dump_json(),
        "inputs": INPUTS.model_dump_json(),
        "date": DAYS[1],
        "data_root": str(root),
        "name": "tiny",
        "mode": "full",
        "pipeline_root": str(directory / "root"),
        "code": "",
    }
    uri = run_executor(properties, directory / "examples").uri
    report = json.loads(Path(uri, "ingestion.json").read_text())
    rows = read_examples(uri, "eval")
    labels = {row["request_id"][0].decode(): row["like"][0] for row in rows}
    return labels, report["splits"]["eval"]["joined"]["clicks"], report["notes"]


def expected(wrong: int | None) -> dict[str, int]:
    """Returns labels of all requests; None: those of the wrong clock are left out."""
    return {f"r{number}": 1 for number in range(REQUESTS, 2 * REQUESTS)} | (
        {} if wrong is None else dict.fromkeys(WRONG, wrong)
    )


def test_a_server_an_hour_ahead_is_a_dead_letter_and_has_no_labels_in_a_run(tmp_path: Path) -> None:
    root = logs_of(tmp_path / "logs", 3600)
    labels, counts, letters = streamed(root, tmp_path)
    assert labels == expected(None)
    assert (counts["rows ahead of their arrival"], counts["rows"]) == (REQUESTS, 2 * REQUESTS)
    [letter] = letters
    assert letter["rows"] == list(range(REQUESTS))
    labels, joined, notes = ingested(root, tmp_path)
    assert labels == expected(0)
    assert joined[EARLIER_ONLY] == joined["actions before the event"] == REQUESTS
    [note] = [note for note in notes if "clock" in note]
    assert mentions(note, f"data.sources.clicks ... {REQUESTS} rows")


def test_a_server_a_little_ahead_has_no_labels_and_both_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    labels, counts, letters = streamed(logs_of(tmp_path / "logs", 120), tmp_path)
    assert (labels, letters) == (expected(0), [])
    assert counts[f"{EARLIER_ONLY}: clicks"] == REQUESTS
    assert "clocks differ" in caplog.text


def test_a_server_hours_behind_is_late_and_its_actions_are_after_the_window(tmp_path: Path) -> None:
    root = logs_of(tmp_path / "logs", -2 * 3600)
    labels, counts, letters = streamed(root, tmp_path)
    assert (labels, letters) == (expected(0), [])
    assert counts["rows"] == counts["examples"] == 2 * REQUESTS
    labels, joined, _ = ingested(root, tmp_path)
    assert labels == expected(0)
    assert joined["actions more than 3600 s after the event"] == REQUESTS


@pytest.mark.parametrize("ahead_s", [-20 * DAY_S, 70 * 365 * DAY_S])
def test_a_server_in_another_year_is_a_dead_letter_and_in_no_run(tmp_path: Path, ahead_s: int) -> None:
    root = logs_of(tmp_path / "logs", ahead_s)
    labels, counts, letters = streamed(root, tmp_path)
    assert (labels, counts["rows"]) == (expected(None), REQUESTS)
    assert len(letters) == len({letter["name"] for letter in letters}) == 1
    assert mentions(letters[0]["reason"], "day")

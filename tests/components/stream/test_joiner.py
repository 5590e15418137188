"""The streaming joiner: the examples of the batch joiner, each once, whatever the order of arrival and the restarts."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sangam.schemas.contracts import segments
from tests.components.examples.sample_files import read_examples
from tests.components.logs.sample_logs import run_executor, write
from tests.components.logs.sample_sources import DAYS, MIDNIGHT, logs, properties_of, write_logs
from tests.components.stream.sample_stream import arrive, as_texts, examples_of, files_below, job_of

pytestmark = pytest.mark.slow

_DAY_S = 86_400


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The logs, and what ingestion makes of them."""
    root = tmp_path_factory.mktemp("batch") / "logs"
    write_logs(root)
    examples = run_executor(properties_of(logs(), root), root.parent / "out")
    return root, as_texts([row for split in ("train", "eval") for row in read_examples(examples.uri, split)])


def _joiner(job: Any) -> Any:
    from sangam.components.stream.joiner import Joiner

    return Joiner(job)


def _run(joiner: Any) -> None:
    while joiner.step(is_last=True):
        pass


@pytest.mark.parametrize("seed", range(4))
def test_examples_are_those_of_the_batch_joiner_in_any_order_of_arrival_and_over_restarts(
    batch: tuple[Path, list[str]], tmp_path: Path, seed: int
) -> None:
    root, expected = batch
    chance = random.Random(seed)
    names = files_below(root)
    chance.shuffle(names)
    # So late that nothing is: the files of three days arrive in any order.
    job = job_of(tmp_path, lateness_s=3 * _DAY_S, segment_rows=7)
    joiner = _joiner(job)
    while names:
        arriving = [names.pop() for _ in range(min(len(names), chance.randint(1, 4)))]
        arrive(root, job, arriving)
        for _ in range(chance.randint(0, 3)):
            joiner.step()
        if chance.random() < 0.5:
            joiner = _joiner(job)  # As after a kill: only what was sealed counts.
    _run(joiner)
    last = _joiner(job_of(tmp_path, lateness_s=3 * _DAY_S, segment_rows=7, idle_s=1e-9))
    _run(last)
    assert as_texts(examples_of(job)) == expected
    assert all(segments.read(Path(job.segments), n).rows <= 7 for n in segments.numbers(Path(job.segments)))
    assert last.counts["examples"] == len(expected)
    assert last.counts["rows late"] == 0


def test_rows_come_in_the_order_of_time_once_their_window_is_over(
    batch: tuple[Path, list[str]], tmp_path: Path
) -> None:
    root, _ = batch
    job = job_of(tmp_path, lateness_s=0)
    arrive(root, job, [name for name in files_below(root) if DAYS[0] in name])
    joiner = _joiner(job)
    _run(joiner)
    times = [row["at"][0] for row in examples_of(job)]
    assert times == sorted(times)
    # The newest of the day is 23:01 and its like 23 s later; rows within an hour before it wait.
    newest = MIDNIGHT[DAYS[0]] + 23 * 3600 + 60 + 23
    assert joiner.watermark == newest
    assert times[-1] == max(
        MIDNIGHT[DAYS[0]] + 3600 * n + 60 for n in range(24) if 3600 * n + 60 + 3600 <= 23 * 3600 + 83
    )
    assert joiner.num_waiting > 0


def test_a_late_row_becomes_an_example_and_is_counted_and_a_late_action_changes_nothing(
    batch: tuple[Path, list[str]], tmp_path: Path
) -> None:
    root, _ = batch
    job = job_of(tmp_path, lateness_s=0, idle_s=1e-9)
    first = [name for name in files_below(root) if DAYS[1] in name]
    arrive(root, job, first)
    joiner = _joiner(job)
    _run(joiner)
    before = as_texts(examples_of(job))
    late = {"row": "late", "post": 1, "at": MIDNIGHT[DAYS[1]] + 60, "hour": 0}
    write(tmp_path / "late" / f"shown/{DAYS[1]}/part-9.parquet", "parquet", [late])
    like = {"row": f"{DAYS[1]} 1", "post": 1, "time": MIDNIGHT[DAYS[1]] + 3700, "what": "like", "day": 9.0}
    write(tmp_path / "late" / f"likes/{DAYS[1]}/part-9.parquet", "parquet", [like])
    arrive(tmp_path / "late", job, files_below(tmp_path / "late"))
    _run(joiner)
    after = examples_of(job)
    assert len(after) == len(before) + 1
    assert as_texts(after[:-1]) == before
    assert (after[-1]["at"], after[-1]["like"]) == ([late["at"]], [0])
    assert (joiner.counts["rows late"], joiner.counts["rows of likes late"]) == (1, 1)


def test_a_file_that_cannot_be_read_is_a_dead_letter_and_the_others_go_on(
    batch: tuple[Path, list[str]], tmp_path: Path
) -> None:
    root, expected = batch
    job = job_of(tmp_path, lateness_s=3 * _DAY_S, idle_s=1e-9)
    arrive(root, job, files_below(root))
    poison = Path(job.data_root, f"shown/{DAYS[0]}/part-7.parquet")
    poison.write_bytes(b"PAR1 no parquet")
    # A file without a column is not read with another one in its place.
    shown = pq.read_table(root / f"shown/{DAYS[0]}/part-0.parquet")
    pq.write_table(shown.drop(["hour"]), poison.with_name("part-8.parquet"))
    likes = pq.read_table(root / f"likes/{DAYS[0]}/part-0.parquet")
    pq.write_table(likes.drop(["post"]), Path(job.data_root, f"likes/{DAYS[0]}/part-9.parquet"))
    joiner = _joiner(job)
    _run(joiner)
    assert as_texts(examples_of(job)) == expected
    letters = [json.loads(file.read_text()) for file in (tmp_path / "dead").glob("*.json")]
    assert sorted((letter["name"], letter["source"]) for letter in letters) == [
        (f"likes/{DAYS[0]}/part-9.parquet", "likes"),
        (f"shown/{DAYS[0]}/part-7.parquet", ""),
        (f"shown/{DAYS[0]}/part-8.parquet", ""),
    ]
    assert joiner.counts["files that cannot be read"] == 3
    _run(_joiner(job))
    assert as_texts(examples_of(job)) == expected

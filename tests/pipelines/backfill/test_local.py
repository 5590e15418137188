"""A backfill's dates: which are run, in what order, what stops them, and how they go on; the runs are pretended."""

import itertools
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from sangam.pipelines.backfill.local import check_backfill
from sangam.schemas.errors import UserError
from tests.e2e.warm_commands import Started
from tests.errors import mentions, place_and_value, tells
from tests.paths import SPECS

pytestmark = pytest.mark.slow

DATES = [f"2024-03-0{day}" for day in range(2, 7)]


class Place:
    """A spec, logs, a root, and what the pretended runs are told."""

    def __init__(self, folder: Path):
        self.spec, self.data, self.root = folder / "spec.yaml", folder / "data", folder / "root"
        self.spec.write_text((SPECS / "short_video.yaml").read_text())
        self._numbers = itertools.count()
        self.root.mkdir()
        for date in DATES:
            (self.data / date).mkdir(parents=True)
            (self.data / date / "part.parquet").write_text("rows")
        self.tell({})

    def tell(self, told: dict[str, dict[str, Any]]) -> None:
        (self.root / "pretend.json").write_text(json.dumps(told))

    def change_spec(self, old: str, new: str) -> None:
        text = self.spec.read_text()
        assert old in text
        self.spec.write_text(text.replace(old, new))

    def start(self) -> Started:
        arguments = [str(self.spec), DATES[0], DATES[-1], str(self.data), str(self.root)]
        output = self.root.parent / f"output-{next(self._numbers)}.txt"
        return Started(["tests.pipelines.backfill.fake_backfill", *arguments], os.environ, output, output)

    def run(self) -> tuple[int | None, str]:
        process = self.start()
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def calls(self) -> list[str]:
        """Returns the dates that were run since it was last asked."""
        file = self.root / "calls.txt"
        found = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    def record(self) -> dict[str, Any]:
        text = (self.root / "backfill" / "short_video" / "backfill.json").read_text()
        dates: dict[str, Any] = json.loads(text)["dates"]
        return dates


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_dates_are_run_in_order_and_a_refused_one_does_not_stop_them(place: Place) -> None:
    place.tell({DATES[0]: {"code": 0, "auc": 0.6}, DATES[2]: {"code": 3, "auc": 0.8}})
    code, output = place.run()
    assert code == 0, output
    assert place.calls() == DATES
    states = [done["state"] for done in place.record().values()]
    assert states == ["blessed", "blessed", "refused", "blessed", "blessed"]
    [row] = [line for line in output.splitlines() if line.startswith(f"{DATES[2]}  refused  1 day")]
    assert row.split() == [
        *f"{DATES[2]} refused 1 day after 2024-03-01".split(),
        *["auc", "0.8000"] * 4,
        *["4.0", "s", "10", "s"],
    ]
    [means] = [line for line in output.splitlines() if "mean" in line]
    assert means.split() == ["mean;", "sum", *["auc", "0.7000"] * 4, *["20", "s", "50", "s"]]


def test_a_failed_date_stops_and_the_same_command_goes_on_from_it(place: Place) -> None:
    place.tell({DATES[2]: {"code": 1}})
    code, output = place.run()
    assert code == 1
    assert mentions(output, f"{DATES[2]} failed ... exit code 1")
    assert f"pretends to run {DATES[2]}" in output
    assert place.calls() == DATES[:3]
    place.tell({})
    code, output = place.run()
    assert code == 0, output
    assert place.calls() == DATES[2:]
    assert f"{DATES[0]} blessed  done before" in output
    assert place.run()[0] == 0
    assert place.calls() == []


@pytest.mark.long
def test_another_spec_runs_every_date_again(place: Place) -> None:
    place.run()
    place.calls()
    place.change_spec("epochs: 2", "epochs: 3")
    assert place.run()[0] == 0
    assert place.calls() == DATES


@pytest.mark.long
def test_a_date_without_logs_is_skipped_where_the_spec_allows_it(place: Place) -> None:
    (place.data / DATES[1] / "part.parquet").rename(place.data / DATES[1] / "_part.parquet")
    place.change_spec("eval_days: 1", "eval_days: 1\n  missing_days: skip")
    code, output = place.run()
    assert code == 0, output
    assert place.calls() == [DATES[0], *DATES[2:]]
    [note] = place.record()[DATES[1]]["notes"]
    assert mentions(note, f"{DATES[1]} ... no logs")
    assert [DATES[1], "skipped", "no", "logs"] in [line.split() for line in output.splitlines()]


@pytest.mark.long
def test_a_skipped_date_is_run_once_its_logs_have_come(place: Place) -> None:
    marker = "{YYYY}-{MM}-{DD}/_SUCCESS"
    place.change_spec("eval_days: 1", f"eval_days: 1\n  missing_days: skip\n  arrival: {{marker: '{marker}'}}")
    for date in DATES[:-1]:
        (place.data / date / "_SUCCESS").touch()
    assert place.run()[0] == 0
    assert place.calls() == DATES[:-1]
    assert place.record()[DATES[-1]]["state"] == "skipped"
    (place.data / DATES[-1] / "_SUCCESS").touch()
    assert place.run()[0] == 0
    assert place.calls() == DATES[-1:]
    assert place.record()[DATES[-1]]["state"] == "blessed"


def _hanging(place: Place) -> tuple[Started, psutil.Process]:
    place.tell({DATES[1]: {"hangs": True}})
    process = place.start()
    deadline = time.monotonic() + 30
    while DATES[1] not in ((place.root / "calls.txt").read_text() if (place.root / "calls.txt").exists() else ""):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    [child] = psutil.Process(process.pid).children()
    return process, child


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.long)]
)
def test_a_stop_ends_the_run_and_the_next_backfill_goes_on(place: Place, number: signal.Signals, code: int) -> None:
    process, child = _hanging(place)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == code
    assert f"stopped by {number.name}" in output
    assert not child.is_running()
    place.calls()
    place.tell({})
    assert place.run()[0] == 0
    assert place.calls() == DATES[1:]


@pytest.mark.long
def test_after_kill_9_no_run_is_left_and_the_next_backfill_goes_on(place: Place) -> None:
    process, child = _hanging(place)
    process.kill()
    process.communicate()
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running()
    place.calls()
    place.tell({})
    assert place.run()[0] == 0
    assert place.calls() == DATES[1:]


@pytest.mark.parametrize(
    ("spec", "first", "last", "named", "value"),
    [
        ("short_video", DATES[1], DATES[0], "--to", "(got 2024-03-02, --from 2024-03-03)"),
        ("short_video", "yesterday", DATES[0], "--from", "(got 'yesterday')"),
        ("short_video", "2030-01-01", "2030-01-02", "--from, --to", "(got 2030-01-01 to 2030-01-02"),
        ("census_income", DATES[0], DATES[1], "backfill", "(got spec 'census_income'"),
    ],
)
def test_what_cannot_be_run_is_refused(place: Place, spec: str, first: str, last: str, named: str, value: str) -> None:
    with pytest.raises(UserError, match=place_and_value(named, value)):
        check_backfill(SPECS / f"{spec}.yaml", first, last, place.data, place.root)


@pytest.mark.long
def test_an_unreadable_record_is_named(place: Place) -> None:
    assert place.run()[0] == 0
    record = place.root / "backfill" / "short_video" / "backfill.json"
    record.write_text("{")
    code, output = place.run()
    assert code != 0
    assert tells(output, "...backfill.json", "version")

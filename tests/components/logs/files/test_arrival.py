"""A run waits for the marker of its date, for so long and no longer; what has no marker is not read."""

import datetime
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sangam.components.logs.files.arrival import WAITING_FILE, wait_for_logs
from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import has_files, resolve
from sangam.components.logs.request import Request, parse
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs
from tests.errors import place_and_value, tells
from tests.paths import REPOSITORY

TODAY = datetime.date(2024, 3, 2)
DATE = "2024-03-01"
DAYS = ["2024-02-28", "2024-02-29", DATE]


def day_logs(arrival: dict[str, Any] | None = None, **settings: Any) -> DayLogs:
    marker = {"marker": "{YYYY}-{MM}-{DD}/_SUCCESS"} | (arrival or {})
    document = {
        "kind": "days",
        "format": "parquet",
        "pattern": "{YYYY}-{MM}-{DD}/*.parquet",
        "train_days": 2,
        "arrival": marker,
    }
    return DayLogs.model_validate(document | settings)


UNMARKED = day_logs().model_copy(update={"arrival": None})


def request(root: Path, logs: DayLogs, date: str = DATE) -> Request:
    inputs = Inputs.model_validate(
        {"features": {"x": {"kind": "numeric", "normalize": "zscore"}}, "tasks": {"like": {"kind": "binary"}}}
    )
    return Request(logs, inputs, (), date, str(root), "tiny", "full", "unused")


def write(root: Path, days: list[str], *, marker: bool = True) -> None:
    for day in days:
        (root / day).mkdir(parents=True, exist_ok=True)
        (root / day / "part.parquet").write_bytes(b"rows")
        if marker:
            (root / day / "_SUCCESS").touch()


class Clock:
    """Time that passes only while somebody sleeps; things may happen at given times."""

    def __init__(self, then: dict[float, Any] | None = None):
        self.now = 1000.0
        self.slept: list[float] = []
        self.then = then or {}

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        for at in sorted(self.then):
            if self.now - 1000 >= at:
                self.then.pop(at)()


def wait(root: Path, logs: DayLogs, clock: Clock, *, date: str = DATE, today: datetime.date = TODAY) -> None:
    wait_for_logs(request(root, logs, date), LocalStorage(), today, clock=clock, sleep=clock.sleep)


def test_a_marker_that_is_there_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, [DATE])
    clock = Clock()
    wait(tmp_path, day_logs(), clock)
    assert clock.slept == []


def test_without_arrival_nothing_is_waited_for(tmp_path: Path) -> None:
    clock = Clock()
    wait(tmp_path, UNMARKED, clock)
    assert clock.slept == []


def test_a_marker_that_comes_later_ends_the_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    write(tmp_path, DAYS, marker=False)
    clock = Clock({700.0: lambda: write(tmp_path, [DATE])})
    wait(tmp_path, day_logs({"poll_s": 60}), clock)
    assert clock.slept == [60] * 12
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        *(f"event=waiting_for_logs date={DATE} waited_s={waited} of_s=7200" for waited in (0, 300, 600)),
        f"event=logs_arrived date={DATE} waited_s=720",
    ]


def test_a_marker_that_never_comes_ends_the_run_with_a_clear_word(tmp_path: Path) -> None:
    clock = Clock()
    with pytest.raises(UserError) as caught:
        wait(tmp_path, day_logs({"wait_s": 100}), clock)
    assert tells(str(caught.value), "data.arrival", "(got none after 100 s) ... wait_s (got 100)")
    assert clock.slept == [30, 30, 30, 10]


def test_wait_s_0_looks_once(tmp_path: Path) -> None:
    clock = Clock()
    with pytest.raises(UserError, match="got none after 0 s"):
        wait(tmp_path, day_logs({"wait_s": 0}), clock)
    assert clock.slept == []
    write(tmp_path, [DATE])
    wait(tmp_path, day_logs({"wait_s": 0}), clock)


def test_a_date_older_than_yesterday_is_not_waited_for(tmp_path: Path) -> None:
    clock = Clock()
    with pytest.raises(UserError, match=place_and_value("data.arrival", "(got none ... yesterday)")):
        wait(tmp_path, day_logs(), clock, today=TODAY + datetime.timedelta(days=1))
    assert clock.slept == []


def test_only_the_last_evaluation_day_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, [DATE])
    clock = Clock()
    wait(tmp_path, day_logs(eval_days=2), clock)
    assert clock.slept == []


def test_a_date_far_from_the_newest_logs_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, DAYS)
    clock = Clock()
    with pytest.raises(UserError) as caught:
        wait(tmp_path, day_logs(), clock, date="2100-01-01", today=datetime.date(2100, 1, 2))
    assert tells(str(caught.value), "date", f"(got 2100-01-01, ... {DATE})")
    assert clock.slept == []


def test_a_date_is_not_left_to_a_clock_that_was_never_set(tmp_path: Path) -> None:
    properties = _properties(tmp_path, day_logs(), "")
    assert parse(properties, TODAY).date == DATE
    with pytest.raises(UserError, match=place_and_value("date", "(got 1970-01-01)")):
        parse(properties, datetime.date(1970, 1, 1))
    assert parse(properties | {"date": DATE}, datetime.date(1970, 1, 1)).date == DATE


def test_a_folder_is_no_marker(tmp_path: Path) -> None:
    (tmp_path / DATE / "_SUCCESS").mkdir(parents=True)
    with pytest.raises(UserError, match=place_and_value("data.arrival", "_SUCCESS")):
        wait(tmp_path, day_logs({"wait_s": 0}), Clock())


def test_brackets_in_the_data_folder_are_no_wildcard(tmp_path: Path) -> None:
    write(tmp_path / "logs[1]", [DATE])
    clock = Clock()
    wait(tmp_path / "logs[1]", day_logs({"wait_s": 0}), clock)
    assert clock.slept == []


def test_a_day_without_its_marker_is_a_missing_day(tmp_path: Path) -> None:
    write(tmp_path, [DAYS[0], DATE])
    write(tmp_path, [DAYS[1]], marker=False)
    with pytest.raises(UserError) as caught:
        resolve(day_logs(), DATE, str(tmp_path), LocalStorage())
    assert tells(
        str(caught.value),
        f"data.pattern: {tmp_path}/{{YYYY}}-{{MM}}-{{DD}}/*.parquet",
        f"(got none for {DAYS[1]}) ... `missing_days: skip`",
    )
    found = resolve(day_logs(missing_days="skip"), DATE, str(tmp_path), LocalStorage())
    assert found.missing_days == (DAYS[1],)
    assert [file.day for file in found.files] == [DAYS[0], DATE]
    assert not has_files(day_logs(), datetime.date(2024, 2, 29), str(tmp_path), LocalStorage())
    assert has_files(UNMARKED, datetime.date(2024, 2, 29), str(tmp_path), LocalStorage())


def test_what_is_waited_for_is_left_for_the_progress_and_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANGAM_LOG_DIR", str(tmp_path))
    seen = []
    clock = Clock({60.0: lambda: seen.append((tmp_path / WAITING_FILE).read_text())})
    with pytest.raises(UserError):
        wait(tmp_path, day_logs({"wait_s": 600}), clock)
    [line] = seen
    assert f"{DATE}: 30 s of 10 min 00 s" in line
    assert not (tmp_path / WAITING_FILE).exists()


def test_a_marker_written_meanwhile_is_seen_on_the_real_clock(tmp_path: Path) -> None:
    write(tmp_path, DAYS, marker=False)
    marker = tmp_path / DATE / "_SUCCESS"
    writer = threading.Timer(0.5, marker.touch)
    writer.start()
    wait_for_logs(request(tmp_path, day_logs({"poll_s": 1, "wait_s": 300})), LocalStorage(), TODAY)
    assert marker.exists()
    writer.join()


@pytest.mark.processes
def test_sigterm_ends_the_wait_at_once(tmp_path: Path) -> None:
    program = (
        "import datetime, sys\nfrom pathlib import Path\n"
        "from sangam.components.processes.stopping import Stopped, StopSignals\n"
        "from tests.components.logs.files.test_arrival import "
        "TODAY, LocalStorage, day_logs, request, wait_for_logs\n"
        "try:\n    with StopSignals() as stop, stop.raised():\n        print('waits', flush=True)\n"
        "        wait_for_logs(request(Path(sys.argv[1]), day_logs({'poll_s': 600})), LocalStorage(), TODAY)\n"
        "except Stopped as stopped:\n    sys.exit(stopped.exit_code)\n"
    )
    waiting = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE)
    try:
        assert waiting.stdout
        assert waiting.stdout.readline() == b"waits\n"
        time.sleep(0.2)
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(timeout=60) == 143  # Before it looks again.
    finally:
        waiting.kill()
        waiting.communicate()


def _properties(root: Path, logs: DayLogs, date: str) -> dict[str, Any]:
    from tests.components.logs.sample_logs import INPUTS

    return {
        "logs": logs.model_dump_json(),
        "inputs": INPUTS.model_dump_json(),
        "date": date,
        "data_root": str(root),
        "name": "tiny",
        "mode": "full",
        "pipeline_root": str(root.parent / "root"),
        "code": "",
    }


@pytest.mark.slow
def test_the_driver_takes_the_fingerprint_after_the_logs_have_come(tmp_path: Path) -> None:
    from tfx.orchestration.portable.data_types import ExecutionInfo

    from sangam.components.steps.example_gen.driver import Driver

    today = datetime.datetime.now(datetime.UTC).date()
    days = [str(today - datetime.timedelta(days=back)) for back in (3, 2, 1)]
    write(tmp_path, days[:2])
    write(tmp_path, days[2:], marker=False)

    def complete() -> None:
        (tmp_path / days[2] / "part-2.parquet").write_bytes(b"more rows")
        (tmp_path / days[2] / "_SUCCESS").touch()

    def driven() -> str:
        properties = _properties(tmp_path, day_logs({"poll_s": 1, "wait_s": 60}), days[2])
        output = Driver(None).run(ExecutionInfo(exec_properties=properties))
        return str(output.exec_properties["fingerprint"].string_value)

    writer = threading.Timer(0.5, complete)
    writer.start()
    first = driven()
    writer.join()
    assert first == driven()
    os.remove(tmp_path / days[2] / "part-2.parquet")
    assert first != driven()


@pytest.mark.slow
def test_the_executor_waits_too_where_no_driver_runs(tmp_path: Path) -> None:
    from tfx.types import standard_artifacts

    from sangam.components.steps.example_gen.executor import Executor

    examples = standard_artifacts.Examples()
    examples.uri = str(tmp_path / "out")
    with pytest.raises(UserError, match=place_and_value("data.arrival", "2024-03-01 ... /2024-03-01/_SUCCESS")):
        Executor().Do({}, {"examples": [examples]}, _properties(tmp_path, day_logs(), DATE))

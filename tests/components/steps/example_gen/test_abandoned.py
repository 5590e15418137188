"""What runs that were killed leave in the store of days, and which of it the next run removes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.components.logs.sample_logs import INPUTS, ROWS, day_logs, expected, write_days
from tests.components.steps.example_gen.test_executor import COLUMNS, DATE, DAYS, ingest, properties, written
from tests.paths import REPOSITORY

pytestmark = pytest.mark.slow

AGE_S = 7 * 86_400.0
KILLED = """
import os, signal, sys
from pathlib import Path
from sangam.components.examples.writer import BlockWriter
from tests.components.logs.sample_logs import day_logs
from tests.components.steps.example_gen.test_executor import ingest
BlockWriter.close = lambda writer: os.kill(os.getpid(), signal.SIGKILL)
ingest(day_logs(), Path(sys.argv[1], "logs"), Path(sys.argv[1], "killed"))
"""


def days_of(store: Path) -> dict[str, list[str]]:
    """Returns the names in each day's folder."""
    return {day.name[:10]: sorted(path.name for path in day.iterdir()) for day in store.iterdir() if day.is_dir()}


def grown_older(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


@pytest.mark.long
def test_the_attempts_of_a_run_killed_while_it_ingests_are_removed_a_week_later(tmp_path: Path) -> None:
    write_days(tmp_path / "logs", "parquet", dict.fromkeys(DAYS, ROWS))
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=REPOSITORY, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = tmp_path / "root" / "examples" / "tiny"
    abandoned = {day: name for day, [name] in days_of(store).items()}
    assert sorted(abandoned) == sorted(DAYS)
    # Another run may still be writing them.
    grown_older(store, AGE_S - 3600)
    ingest(day_logs(), tmp_path / "logs", tmp_path / "second")
    assert all(abandoned[day] in names and len(names) == 3 for day, names in days_of(store).items())

    grown_older(store, AGE_S + 3600)
    write_days(tmp_path / "logs", "parquet", {"2024-03-02": ROWS})
    examples = ingest(day_logs(), tmp_path / "logs", tmp_path / "third", date="2024-03-02")
    assert all(abandoned.get(day) not in names and len(names) == 2 for day, names in days_of(store).items())
    assert written(examples, "train") == 2 * [expected(row, COLUMNS) for row in ROWS]
    # What is complete stays, however old it is, also where another run's attempt is now the day's.
    assert len(written(ingest(day_logs(), tmp_path / "logs", tmp_path / "fourth"), "train")) == 2 * len(ROWS)
    assert not list(store.rglob("unfinished"))


def test_a_result_of_a_run_killed_while_it_writes_is_removed_a_week_later(tmp_path: Path) -> None:
    from sangam.components.examples import day_results
    from sangam.components.logs.files.storage import TfxStorage
    from sangam.components.steps.example_gen.abandoned import remove_abandoned

    attempt = tmp_path / "[store]" / f"{DATE}-key" / "attempt"
    attempt.mkdir(parents=True)
    result = attempt / "statistics-0"
    killed = os.fork()
    if killed == 0:
        day_results.fileio.rename = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
        day_results.write_result(str(result), b"half")
    assert os.waitpid(killed, 0)[1] == signal.SIGKILL
    day_results.write_result(str(result), b"whole")
    [left] = set(attempt.iterdir()) - {result}
    now = left.stat().st_mtime
    remove_abandoned(str(tmp_path / "[store]"), now + AGE_S - 1, TfxStorage())
    assert left.exists()
    remove_abandoned(str(tmp_path / "[store]"), now + AGE_S + 1, TfxStorage())
    assert [path.name for path in attempt.iterdir()] == ["statistics-0"]
    assert result.read_bytes() == b"whole"


def test_two_runs_that_make_the_same_day_at_once_keep_what_each_lists(tmp_path: Path) -> None:
    from sangam.components.logs.request import parse, today_utc
    from sangam.components.steps.example_gen.store import DayStore, Unit

    request = parse(properties(day_logs(), tmp_path, INPUTS), today_utc())
    store, unit = DayStore(request), Unit("train", DATE, (), "key")
    folders = [store.begin(unit), store.begin(unit)]
    listed = []
    for folder in folders:
        Path(folder, "a.blocks").touch()
        listed.append(store.finish(unit, folder, ["a.blocks"], [])[0])
    store.remove_abandoned(time.time() + 2 * AGE_S)
    assert [Path(file).exists() for examples in listed for file in examples.files] == [True, True]
    found = store.find(unit)
    assert found is not None
    assert found[0] == listed[1]

"""Days that must not be learned from stop the run with a word that says what to mend, and nothing is pushed."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.browser.pages import look_at
from tests.e2e.user_run import DATE, World, sangam
from tests.errors import tells
from tests.security.crafted_parquet import write_crafted

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]


Changes = Mapping[tuple[str | int, ...], Any]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_spec_path: Path) -> World:
    made = World(tmp_path_factory.mktemp("bad"), demo_spec_path)
    made.generate()
    return made


def _logs_with(world: World, name: str, column: str, values: pa.Array | None) -> Path:
    """Returns a copy of the logs in which a column of the last day is replaced, or dropped."""
    logs = world.directory / name
    shutil.copytree(world.logs, logs)
    [file] = (logs / DATE).glob("*.parquet")
    table = pq.read_table(file)
    place = table.schema.get_field_index(column)
    table = table.remove_column(place) if values is None else table.set_column(place, column, values)
    pq.write_table(table, file)
    return logs


def _fails(world: World, logs: Path, changes: Changes | None = None) -> str:
    root = world.directory / f"root-{logs.name}"
    done = sangam(*world.arguments(world.spec("bad", changes or {}), logs=logs, root=root))
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    [run] = (root / "runs").glob("2*")
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert summary["error"]
    assert not (root / "serving").exists()
    return f"{done.stdout}{done.stderr}step={summary['failed_step']}"


def test_a_null_in_a_required_column_is_an_anomaly(world: World) -> None:
    users = [None, *(f"u{number}" for number in range(1, 3000))]
    output = _fails(world, _logs_with(world, "nulls", "user_id", pa.array(users)))
    assert "user_id" in output
    assert "eval" in output
    assert "step=example_validator" in output
    [page] = (world.directory / "root-nulls" / "runs").glob("2*/report.html")
    look_at(page, "failed in example_validator", "user_id", "What to try")


def test_a_missing_column_names_file_and_column(world: World) -> None:
    output = _fails(world, _logs_with(world, "no_column", "tab", None))
    assert f"{DATE}/" in output
    assert "tab" in output
    assert "step=example_gen" in output


def test_a_file_with_code_is_refused_before_the_code_runs(world: World) -> None:
    logs = world.directory / "code"
    shutil.copytree(world.logs, logs)
    [file] = (logs / DATE).glob("*.parquet")
    write_crafted(file, pq.read_table(file), world.directory / "ran")
    output = _fails(world, logs)
    assert f"{DATE}/" in output
    assert "has a Python extension type" in " ".join(output.split())
    assert "step=example_gen" in output
    assert not (world.directory / "ran").exists()


def test_a_day_whose_times_are_milliseconds_is_told_so(world: World) -> None:
    [file] = (world.logs / DATE).glob("*.parquet")
    times = pa.array([1000 * second for second in pq.read_table(file)["event_time"].to_pylist()])
    changes = {("event_time",): "event_time", ("tables", "posts", "expire_after_days"): 14}
    output = _fails(world, _logs_with(world, "milliseconds", "event_time", times), changes)
    assert "split 'eval'" in output
    assert tells(output, "column 'event_time'", "3000 of 3000 ... 1 more on each side")
    assert "milliseconds" in output
    assert "step=example_gen" in output


def test_a_missing_day_names_the_day_and_how_to_allow_it(world: World) -> None:
    logs = world.directory / "no_day"
    shutil.copytree(world.logs, logs)
    shutil.rmtree(logs / "2026-03-02")
    output = _fails(world, logs)
    assert "2026-03-02" in output
    assert "missing_days: skip" in output

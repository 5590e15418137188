"""A Parquet or Arrow file with code in it: nothing that opens such files runs it."""

import asyncio
import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sangam.components import arrow_files
from sangam.components.logs.joining.slices import to_bytes, together
from sangam.schemas.errors import UserError
from tests.errors import tells
from tests.security.crafted_parquet import crafted, write_crafted

Open = Callable[[Path, Path], str]
"""Opens a crafted file in an empty folder with the marker that its code would make; returns the error."""
TABLE = pa.table({"user_id": ["u1", "u2"], "clicked": [0, 1]})
KIND = "a column has a Python extension type"


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> Iterator[None]:
    """Takes back what an earlier test has registered, so that it protects no other one."""
    _forget()
    yield
    _forget()
    arrow_files._refuse_python_types()


def _forget() -> None:
    arrow_files._register.cache_clear()
    with contextlib.suppress(KeyError):
        pa.unregister_extension_type(arrow_files._PYTHON_TYPE)


def _init(folder: Path, marker: Path) -> str:
    from sangam.pipelines.cli import app

    for day in ("2024-03-01", "2024-03-02"):
        write_crafted(folder / "logs" / day / "a.parquet", TABLE, marker)
    done = CliRunner().invoke(app, ["init", str(folder / "logs"), "--output", str(folder / "spec.yaml")])
    assert isinstance(done.exception, UserError)
    return str(done.exception)


def _footer_of_init(folder: Path, marker: Path) -> str:
    from sangam.pipelines.drafting.reading import complete_columns

    return _error(lambda: complete_columns(write_crafted(folder / "a.parquet", TABLE, marker)))


def _inspection(folder: Path, marker: Path) -> str:
    from sangam.components.logs.readers import parquet

    with write_crafted(folder / "a.parquet", TABLE, marker).open("rb") as file:
        [problem] = parquet.inspect(file, "a.parquet", [], {}).problems
    return problem


def _ingestion(folder: Path, marker: Path) -> str:
    from sangam.components.logs.readers import parquet

    with write_crafted(folder / "a.parquet", TABLE, marker).open("rb") as file:
        return _error(lambda: list(parquet.read(file, "a.parquet", [])))


def _joins(folder: Path, marker: Path) -> str:
    [batch] = crafted(TABLE, marker).to_batches()
    with pytest.raises(pa.ArrowInvalid) as error:
        together([to_bytes(batch)])
    return str(error.value)


def _page_of_a_run(folder: Path, marker: Path) -> str:
    from sangam.components.page.collect import collect

    write_crafted(folder / "metrics.parquet", TABLE, marker)
    return _error(lambda: collect({"evaluation": folder}))


def _kept_result_of_a_day(folder: Path, marker: Path) -> str:
    sink, table = io.BytesIO(), crafted(TABLE, marker)
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return _error(lambda: arrow_files.read_arrow(sink.getvalue(), "result"))


@pytest.mark.parametrize(
    "opened", [_init, _footer_of_init, _inspection, _ingestion, _joins, _page_of_a_run, _kept_result_of_a_day]
)
def test_the_code_does_not_run_and_the_file_is_refused(tmp_path: Path, opened: Open) -> None:
    assert KIND in " ".join(opened(tmp_path, tmp_path / "ran").split())
    assert not (tmp_path / "ran").exists()


def test_no_page_of_a_root_with_such_metrics_runs_it(tmp_path: Path) -> None:
    from aiohttp.test_utils import TestClient, TestServer

    from sangam.pipelines.ui.access import Access
    from sangam.pipelines.ui.application import application
    from tests.pipelines.ui.sample_root import NEW, OLD, run_id, write_runs

    root = write_runs(tmp_path / "root")
    replaced = sorted(root.artifacts.rglob("metrics.parquet"))
    assert len(replaced) == 2
    for path in replaced:
        write_crafted(path, pq.read_table(path), tmp_path / "ran")
    old, new = run_id(OLD), run_id(NEW)

    async def look() -> dict[str, tuple[int, str]]:
        async with TestClient(TestServer(application(root, Access(None, any_host=False)))) as client:
            found = {}
            for path in ("/", "/overview", f"/runs/{new}", f"/runs/{new}/live", f"/compare?a={old}&b={new}"):
                async with client.get(path) as answer:
                    found[path] = (answer.status, await answer.text())
            return found

    found = asyncio.run(look())
    assert not (tmp_path / "ran").exists()
    status, text = found.pop(f"/compare?a={old}&b={new}")
    assert (status < 500, KIND in text) == (True, True), text
    assert {status for status, _ in found.values()} == {200}


@pytest.mark.slow
def test_the_joiner_makes_it_a_dead_letter(tmp_path: Path) -> None:
    from sangam.components.stream.joiner import Joiner
    from tests.components.logs.sample_sources import DAYS, write_logs
    from tests.components.stream.sample_stream import arrive, files_below, job_of

    write_logs(tmp_path / "logs")
    job = job_of(tmp_path)
    [name] = [name for name in files_below(tmp_path / "logs") if DAYS[0] in name][:1]
    path = tmp_path / "logs" / name
    write_crafted(path, pq.read_table(path), tmp_path / "ran")
    arrive(tmp_path / "logs", job, [name])
    joiner = Joiner(job)
    while joiner.step(is_last=True):
        pass
    assert not (tmp_path / "ran").exists()
    assert KIND in "".join(file.read_text() for file in (tmp_path / "dead").rglob("*") if file.is_file())


@pytest.mark.slow
def test_the_evaluator_refuses_such_results(tmp_path: Path) -> None:
    from sangam.components.steps.evaluator.metrics.measured import METRICS_FILE, read_measured

    write_crafted(tmp_path / METRICS_FILE, TABLE, tmp_path / "ran")
    nothing: Any = SimpleNamespace()
    told = _error(lambda: read_measured(str(tmp_path), nothing, nothing))
    assert tells(told, str(tmp_path / METRICS_FILE), KIND)
    assert not (tmp_path / "ran").exists()


def _error(act: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as error:
        act()
    return str(error.value)

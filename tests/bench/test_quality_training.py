"""The benchmarks of quality train: the smallest row of each table, on some rows of the table's data."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.quality import ids
from bench.quality.experiments import SHARED_DATA, TABLES, WORK, Table
from bench.quality.results import read
from sangam.schemas.derived.sizes import dense_parameters
from sangam.schemas.spec import digest

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.real_data]

_ROWS = 1500


@pytest.fixture(scope="module")
def small_logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    folder = tmp_path_factory.mktemp("generated")
    return folder, ids.logs(folder, rows_per_day=_ROWS)


def _some_rows(source: Path, folder: Path) -> Path:
    """Writes the first rows of a few files: of the last days, or of each split."""
    files = sorted(source.rglob("*.parquet"))
    # The newest 39 days of Online Retail are evaluated on.
    days = [file for file in files if "2011-10-27" <= file.parent.name <= "2011-11-02"]
    for file in days or files:
        target = folder / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.read_table(file).slice(0, _ROWS), target)
    return folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Table], dict[str, float]]:
    """Measures a table with one row as `python -m bench.quality` does, and returns its AUCs; equal rows once."""
    pytest.importorskip("tensorflow")
    from bench.quality import __main__ as quality

    known: dict[str, dict[str, float]] = {}

    def measure(table: Table) -> dict[str, float]:
        [spec] = table.specs().values()
        key = digest(spec.ranker())
        if key not in known:
            folder = tmp_path_factory.mktemp(table.name)
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(quality, "WORK", folder)
                patched.setattr(quality, "RESULTS", folder / "results.jsonl")
                quality._measure(table, 1)
            [result] = read(folder / "results.jsonl")
            assert result.epoch_cpu_s > 0
            known[key] = dict(result.aucs)
        return known[key]

    return measure


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_smallest_row_of_a_table_learns(
    table: Table,
    small_logs: tuple[Path, dict[str, int]],
    measured: Callable[[Table], dict[str, float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if WORK in table.data.parents:
        data, counts = small_logs
        monkeypatch.setattr(ids, "logs", lambda folder: counts)
    elif SHARED_DATA.exists():
        data = _some_rows(table.data, tmp_path)
    else:
        pytest.skip(f"needs the real data beside the checkout, in {SHARED_DATA}")
    specs = table.specs()
    row = min(specs, key=lambda row: dense_parameters(specs[row].ranker()))
    changes: dict[str, Any] = {row: table.changes()[row]}
    aucs = measured(replace(table, data=data, changes=lambda: changes))
    assert list(aucs) == list(specs[row].tasks)
    assert max(aucs.values()) > 0.6


def test_the_smallest_row_of_histories_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    from bench import histories
    from sangam.trainer_module import collectives

    monkeypatch.setattr(histories, "_TRIALS", histories._TRIALS[-1:])
    collectives.start()
    found = histories.quality([1], ["din"], {"train": 6_000, "validation": 1_000, "test": 4_000})
    assert found["settings"] == {"din": histories._TRIALS[0]}
    [auc], [of_truth] = (found["aucs"][name] for name in ("din", "oracle"))
    assert 0.55 < auc < of_truth

"""A checkpoint of any mode starts any other: rows key by key, whoever held them and whoever will."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec
from sangam.trainer_module import collectives
from sangam.trainer_module.loop.start import load
from sangam.trainer_module.progress import Progress
from tests.trainer_module.parameter_server.sample_servers import (
    made_job,
    on_ranks,
    rows_of,
    serving,
    train_alone,
    train_served,
)
from tests.trainer_module.sample_job import declared, read_rows, write_examples

pytestmark = pytest.mark.processes

GROUPS = ("adagrad_4", "adagrad_8")
MODES: Mapping[str, Any] = {
    "sync": {"ranks": 1},
    "stale": {"sync": {"kind": "stale", "staleness": 1}, "ranks": 2, "parameter_servers": 2},
    "shadow": {"sync": {"kind": "shadow", "staleness": 1}, "ranks": 2, "parameter_servers": 1},
    "async": {"sync": {"kind": "async", "staleness": 1}, "ranks": 1, "parameter_servers": 3},
}


def _spec(mode: str, **changes: Any) -> RankerSpec:
    return declared(**{**MODES[mode], "checkpoint": {"every_steps": 5, "keep": 2}, **changes})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, files: tuple[str, ...]) -> dict[str, Path]:
    """A finished job of each mode."""
    root = tmp_path_factory.mktemp("trained")
    for mode in MODES:
        made = made_job(root / mode, _spec(mode), files)
        train_alone(made) if mode == "sync" else train_served(made)
    return {mode: root / mode for mode in MODES}


def _started(directory: Path, spec: RankerSpec, files: tuple[str, ...], base: Path | None) -> tuple[Any, Any, int]:
    """Returns the rows by group and key, the dense weights, and the step that a job starts with."""
    made = made_job(directory, spec, files, base=base)
    if not spec.num_parameter_servers:
        collectives.start()
        run = load(made, "", "0", Progress(made, 0), None, rank=0, ranks=1)
        stores = run.trainer.tables.stores  # type: ignore[attr-defined]
        contents = {name: stores[name].contents() for name in GROUPS}
        rows = {name: {int(key): row.tobytes() for key, row in zip(*contents[name], strict=True)} for name in GROUPS}
        return rows, run.trainer.dense.flat.numpy(), run.trainer.step
    with serving(made, "0") as (services, addresses):
        ranks = spec.cluster.ranks
        runs = on_ranks(
            ranks,
            addresses,
            "0",
            lambda rank, servers: load(made, "", "0", Progress(made, rank), servers, rank=rank, ranks=ranks),
        )
        dense = [run.trainer.dense.flat.numpy() for run in runs]
        for other in dense[1:]:
            np.testing.assert_array_equal(other, dense[0])
        return {name: rows_of(services, name) for name in GROUPS}, dense[0], runs[0].trainer.step


def _assert_equals(started: tuple[Any, Any, int], checkpoint: Path) -> None:
    rows, dense, _ = started
    for name in GROUPS:
        keys, expected = read_rows(checkpoint, name)
        assert len(keys) > 10
        assert rows[name] == {int(key): row.tobytes() for key, row in zip(keys, expected, strict=True)}
    np.testing.assert_array_equal(dense, np.load(checkpoint / "dense.weights.npy"))


_AROUND = list(zip(MODES, [*list(MODES)[1:], *MODES], strict=False))
"""Each mode and the next one, so that each is read and reads: a checkpoint does not depend on who will read it."""


@pytest.mark.long
@pytest.mark.parametrize(("base", "mode"), _AROUND)
def test_a_checkpoint_of_any_mode_starts_another(
    tmp_path: Path, files: tuple[str, ...], trained: dict[str, Path], base: str, mode: str
) -> None:
    started = _started(tmp_path, _spec(mode, seed=3), files, trained[base] / "final")
    _assert_equals(started, trained[base] / "final")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["stale", "shadow", "async"])
def test_a_job_goes_on_with_other_numbers_of_ranks_and_servers(
    tmp_path: Path, files: tuple[str, ...], trained: dict[str, Path], mode: str
) -> None:
    last = max((trained[mode] / "checkpoints").glob("step-*"))
    shutil.copytree(last, tmp_path / "checkpoints" / last.name)
    started = _started(tmp_path, _spec(mode, ranks=3, parameter_servers=2 if mode == "async" else 3), files, None)
    _assert_equals(started, last)
    assert started[2] == int(last.name.split("-")[1])

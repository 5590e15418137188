"""What the planner counts is what the engine makes: groups, weights, and resident memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.training_job import read_job
from sangam.schemas.derived.sizes import dense_parameters, dense_parts, high_share
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.embedding.hashing import owner_of
from sangam.trainer_module.launch.children import ALLOCATOR
from sangam.trainer_module.ranker import Ranker
from tests.errors import tells
from tests.paths import REPOSITORY
from tests.schemas.sample_specs import Document, changed
from tests.trainer_module.checkpoint.restore_store import write_users
from tests.trainer_module.models.test_models import CHAIN, INTERACTIONS, MODELS
from tests.trainer_module.sample_job import declared as small_ranker
from tests.trainer_module.sample_job import write_job

pytestmark = pytest.mark.slow

ROWS_READ_BACK = 2_400_000


@pytest.mark.parametrize("ensemble", [None, {"members": 3}])
@pytest.mark.parametrize("interaction", INTERACTIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_the_parts_of_every_architecture_add_up_to_its_dense_weights(
    kind: str, interaction: str, ensemble: dict[str, int] | None
) -> None:
    model = {"kind": kind, **MODELS[kind], "interaction": INTERACTIONS[interaction], "ensemble": ensemble}
    ranker = RankerSpec.model_validate_json(json.dumps({**_of_all_features(), "model": model}))
    assert sum(dense_parts(ranker).values()) == dense_parameters(ranker) == Ranker(ranker).weights.size


def _of_all_features() -> Document:
    """Returns a ranker with features of all widths, all encoders and learned weights of the losses."""
    sequence = {"kind": "sequence", "type": "string", "table": "tags", "max_length": 3}
    encoders = {
        "mean": {"kind": "mean"},
        "positional": {"kind": "positional"},
        "din": {"kind": "din", "target": "user", "units": [5, 3]},
        "transformer": {"kind": "transformer", "num_layers": 2, "feed_forward_units": 6},
    }
    features = {
        "hour": {"kind": "time", "part": "hour"},
        "weekday": {"kind": "time", "part": "weekday", "table": "days"},
        "image": {"kind": "vector", "dim": 5},
        **{name: {**sequence, "encoder": encoder} for name, encoder in encoders.items()},
    }
    document = changed({"tables.tags.dim": 8, "tables.days": {"dim": 8}})
    document["features"] |= features
    document["tasks"] = {task: {"kind": "binary"} for task in CHAIN}
    document["training"]["loss_balance"] = {"kind": "uncertainty"}
    return {part: document[part] for part in ("name", "tables", "features", "tasks", "training")}


def test_the_hash_keeps_every_rank_under_its_high_share() -> None:
    keys = np.random.default_rng(0).integers(1, 2**52, 1_000_000)
    for ranks in (2, 8, 30):
        rows_by_rank = np.bincount(owner_of(tf.constant(keys), ranks).numpy(), minlength=ranks)
        assert rows_by_rank.max() <= high_share(len(keys), ranks)


@pytest.mark.long
def test_a_store_holds_what_is_planned(tmp_path: Path) -> None:
    measured = _measured(tmp_path, "embedding.fill_store", "1100000")
    assert measured["rows"] >= 1_100_000
    # Just behind a doubling: room that is not written must not be resident.
    assert 0.8 * measured["planned_held"] < measured["held"] < measured["planned_held"] + _KEPT_BY_MALLOC
    assert measured["peak"] < measured["planned_peak"] + _KEPT_BY_MALLOC


_KEPT_BY_MALLOC = 160e6
"""Of buffers below its limit for mappings of their own (32 MB) that were freed; part of `PROCESS_BYTES`."""


@pytest.mark.long
@pytest.mark.parametrize("before", [2, 3])
def test_while_it_reads_its_rows_back_a_rank_takes_what_is_planned(tmp_path: Path, before: int) -> None:
    keys = np.random.default_rng(0).choice(2**40, ROWS_READ_BACK, replace=False)
    write_users(tmp_path / "c", keys, ranks=before)
    measured = _measured(tmp_path, "checkpoint.restore_store", str(tmp_path / "c"), "1", "2")
    assert measured["rows"] == pytest.approx(ROWS_READ_BACK / 2, rel=0.01)
    assert measured["held"] == pytest.approx(measured["planned"], rel=0.15)
    assert measured["peak"] == pytest.approx(measured["planned"], rel=0.15)


def _measured(folder: Path, module: str, *arguments: str) -> dict[str, float]:
    output = folder / "measured.json"
    environment = os.environ | ALLOCATOR | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-W", "ignore", "-m", f"tests.trainer_module.{module}", *arguments, str(output)]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(output.read_text()))


def test_a_job_whose_tables_cannot_fit_starts_no_process(tmp_path: Path) -> None:
    huge = {"users": {"capacity": {"rows": 2 * 10**9, "evict": "least_frequent"}}}
    job_file = write_job(tmp_path, small_ranker(tables=huge), ())
    command = [sys.executable, "-m", "sangam.trainer_module.launch.launcher", str(job_file), str(os.getpid())]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == ExitCode.MISTAKE
    failure = (Path(read_job(job_file).log_dir) / "failure.txt").read_text()
    assert tells(failure, "tables", "(got users: ")
    assert "started name=" not in done.stderr

"""The loss of every step of two small specs: a change of numerics is seen in review.

`make golden` rewrites the curves. The tolerance is for another processor's order of additions, not for another model.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec
from tests.golden_files import FOLDER, UPDATE
from tests.trainer_module.sample_job import declared, job, train_on, write_examples

pytestmark = pytest.mark.slow

RELATIVE_TOLERANCE = 1e-3


def _mmoe() -> RankerSpec:
    return declared(epochs=2)


def _ple() -> RankerSpec:
    """Returns a ranker with the other half of the engine: PLE on DCN-v2, attention, learned task weights, Adam rows."""
    document = declared(
        epochs=2,
        loss_balance={"kind": "uncertainty"},
        dense_optimizer={"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.01},
        embedding_optimizer={"kind": "adam", "learning_rate": 0.02},
        schedule={"kind": "cosine", "warmup_steps": 5, "decay_steps": 27},
        clip_gradient_norm=1.0,
    ).model_dump(mode="json", exclude_unset=True)
    document["model"] = {
        "kind": "ple",
        "interaction": {"kind": "dcn_v2", "rank": 4},
        "expert_units": [16, 8],
        "tower_units": [8],
        "dropout": 0.1,
    }
    document["features"]["history"]["encoder"] = {"kind": "transformer", "num_heads": 2}
    return RankerSpec.model_validate_json(json.dumps(document))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    from sangam.trainer_module import collectives

    collectives.start()
    return write_examples(tmp_path_factory.mktemp("data"), num_files=1)


@pytest.mark.parametrize(
    "ranker", [_mmoe(), pytest.param(_ple(), marks=pytest.mark.long)], ids=lambda ranker: ranker.model.kind
)
def test_losses_follow_the_golden_curve(tmp_path: Path, files: tuple[str, ...], ranker: RankerSpec) -> None:
    losses = _train(tmp_path, files, ranker)
    path = FOLDER / "loss_curves" / f"{ranker.model.kind}.json"
    if os.environ.get(UPDATE) == "1":
        curve = {task: [float(f"{loss:.6g}") for loss in losses[:, index]] for index, task in enumerate(ranker.tasks)}
        path.write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")
    golden = json.loads(path.read_text(encoding="utf-8"))
    for index, task in enumerate(ranker.tasks):
        np.testing.assert_allclose(losses[:, index], golden[task], rtol=RELATIVE_TOLERANCE, err_msg=task)


def _train(directory: Path, files: tuple[str, ...], ranker: RankerSpec) -> np.ndarray:
    """Trains in this process; returns the losses: [steps, tasks]."""
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    trainer_job = job(directory, ranker, files)
    Path(trainer_job.log_dir).mkdir()
    trainer, progress = InStepTrainer(Ranker(ranker), rank=0, ranks=1), Progress(trainer_job, 0)
    losses = []
    for epoch in range(ranker.training.epochs):
        batches = own_batches(ranker, files, epoch=epoch, rank=0, ranks=1)
        losses += train_on(trainer, batches, progress).step_losses
    return np.array(losses)

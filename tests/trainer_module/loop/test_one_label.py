"""A task whose labels are all alike is trained without a number that is none, and its report is valid JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer_module.checkpoint.sample_checkpoints import manifest
from tests.trainer_module.sample_job import declared, job, train_on, write_examples

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    from sangam.trainer_module import collectives

    collectives.start()
    return write_examples(tmp_path_factory.mktemp("data"), num_files=1)


@pytest.mark.parametrize(
    ("label", "balance"),
    [
        pytest.param(0.0, {"kind": "uncertainty"}, marks=pytest.mark.long),
        (0.0, {"kind": "gradnorm"}),
        pytest.param(1.0, {"kind": "fixed"}, marks=pytest.mark.long),
    ],
    ids=["no positives, uncertainty", "no positives, gradnorm", "no negatives"],
)
def test_labels_of_one_class_give_finite_losses_and_an_undefined_auc(
    tmp_path: Path, files: tuple[str, ...], label: float, balance: dict[str, Any]
) -> None:
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.loop.history import History
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.loop.report import write_report
    from sangam.trainer_module.loop.run import Run
    from sangam.trainer_module.loop.validation import validate
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    ranker = declared(loss_balance=balance)
    made = job(tmp_path, ranker, files)
    for folder in (made.log_dir, made.output_dir):
        Path(folder).mkdir()
    batches = own_batches(ranker, files, epoch=0, rank=0, ranks=1).map(
        lambda batch: {**batch, "labels": tf.fill(tf.shape(batch["labels"]), label)}
    )
    trainer, progress = InStepTrainer(Ranker(ranker), rank=0, ranks=1), Progress(made, 0)
    history = History(reports=[train_on(trainer, batches, progress)])
    [report] = history.reports
    assert report.skipped == 0
    assert np.isfinite(history.losses()).all()
    assert history.losses()[-1, 0] < history.losses()[0, 0]
    report.validation = validate(trainer, batches, progress).metrics
    unread: Any = None
    run = Run(made, trainer, unread, history, progress, manifest(ranks=1), InStepTrainer, 0)
    write_report(run, tables={}, exchange={}, ranks=[])

    def refused(constant: str) -> None:
        raise ValueError(f"training.json: no JSON has {constant}")

    document = json.loads(made.report_file.read_text(), parse_constant=refused)
    assert document["epochs"][0]["validation"]["like"] == {"auc": None}

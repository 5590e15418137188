"""Architectures on two conflicting tasks: `python -m bench.quality.conflict`.

All networks have about as many weights, and all towers see as many numbers: shared-bottom has one wide network
where the others have eight experts. A seed makes its own tasks, examples and starting weights. Training ends when the
validation split has not got better for five epochs; its best epoch is measured on the test split.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bench import results
from bench.quality.conflicting_tasks import generate
from schemas.spec import RankerSpec
from trainer_module import collectives
from trainer_module.input.batch import Batch
from trainer_module.loop.in_step import InStepTrainer
from trainer_module.loop.validation import validate
from trainer_module.ranker import Ranker

DIM, WIDTH = 100, 4
EXAMPLES = {"train": 10_000, "validation": 5_000, "test": 10_000}
BATCH_SIZE, EPOCHS, PATIENCE = 128, 50, 5
CORRELATIONS = (0.5, 0.0)
SEEDS = (1, 2, 3, 4, 5)
LEARNING_RATE = 0.01
"""The best of 0.001, 0.003 and 0.01 on the validation split of other seeds, for each architecture and correlation."""

_EXPERTS = {"expert_units": (16, WIDTH), "tower_units": (8,)}
MODELS: dict[str, dict[str, Any]] = {
    "shared_bottom": {"kind": "shared_bottom", "bottom_units": (144, WIDTH), "tower_units": (8,)},
    "mmoe": {"kind": "mmoe", "num_experts": 8, **_EXPERTS},
    "ple": {"kind": "ple", "num_levels": 1, "task_experts": 3, "shared_experts": 2, **_EXPERTS},
}


class Row(NamedTuple):
    """One training.

    Attributes:
        model, correlation, seed: what was trained on what.
        parameters: number of weights.
        epoch: the best one.
        validation, test: RMSE of each task.
    """

    model: str
    correlation: float
    seed: int
    parameters: int
    epoch: int
    validation: tuple[float, ...]
    test: tuple[float, ...]


class _Quiet:
    def beat(self) -> None:
        """Nobody waits."""


def run() -> list[Row]:
    """Trains each model with each correlation and seed; about 6 s each on one core."""
    collectives.start()
    return [_train(model, correlation, seed) for correlation in CORRELATIONS for model in MODELS for seed in SEEDS]


def _train(model: str, correlation: float, seed: int) -> Row:
    x, labels = generate(correlation, seed, sum(EXAMPLES.values()), DIM)
    train, validation, test = np.split(np.arange(len(x)), np.cumsum(list(EXAMPLES.values()))[:-1])

    def batches(rows: Any, size: int) -> list[Batch]:
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        return [{"floats": tf.constant(x[part]), "labels": tf.constant(labels[part])} for part in parts]

    trainer = InStepTrainer(Ranker(_declared(model, seed)), rank=0, ranks=1)

    def measured(rows: Any) -> tuple[float, ...]:
        found, _ = validate(trainer, batches(rows, 5_000), _Quiet())  # type: ignore[arg-type]
        return tuple(of_task["rmse"] for of_task in found.values())

    order, best = np.random.default_rng(seed), None
    for epoch in range(EPOCHS):
        for _ in trainer.steps(batches(order.permutation(train), BATCH_SIZE)):
            pass
        of_epoch = measured(validation)
        if best is None or np.mean(of_epoch) < np.mean(best.validation):
            size = trainer.ranker.weights.size
            best = Row(model, correlation, seed, size, epoch, of_epoch, measured(test))
        elif epoch - best.epoch >= PATIENCE:
            break
    assert best is not None
    return best


def _declared(model: str, seed: int) -> RankerSpec:
    document = {
        "name": "conflict",
        "features": {"x": {"kind": "vector", "dim": DIM}},
        "tasks": {"first": {"kind": "regression"}, "second": {"kind": "regression"}},
        "model": MODELS[model],
        "training": {
            "batch_size_per_rank": BATCH_SIZE,
            "seed": seed,
            "dense_optimizer": {"kind": "adam", "learning_rate": LEARNING_RATE},
            "embedding_optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
    }
    return RankerSpec.model_validate_json(json.dumps(document))


def table(rows: list[Row]) -> str:
    """Returns Markdown: test RMSE of the worse and of the better task, mean and standard deviation over the seeds."""
    lines = []
    for correlation, model in dict.fromkeys((row.correlation, row.model) for row in rows):
        of_model = [row for row in rows if (row.correlation, row.model) == (correlation, model)]
        errors = np.sort([row.test for row in of_model], axis=1)
        shown = [f"{side.mean():.3f} ± {side.std(ddof=1):.3f}" for side in (errors[:, 1], errors[:, 0])]
        lines.append([str(correlation), model, f"{of_model[0].parameters:,}", *shown])
    return results.table(["correlation", "model", "weights", "worse task, test RMSE", "better task"], lines)


if __name__ == "__main__":
    print(table(run()))

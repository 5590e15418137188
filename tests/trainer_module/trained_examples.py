"""How often each example has been trained on, by tables that keep books of their ids."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.input.raw_examples import first_examples
from tests.trainer_module.sample_job import NUM_EXAMPLES, declared, read_rows

EPOCHS = 5
EVERY_STEPS = 15
"""From one checkpoint to the next."""


_IDS = ("user", "post", "tags")


def counting(**changes: Any) -> RankerSpec:
    """Returns a lean ranker, whose graph is traced soon, with tables that count how often each id was trained on."""
    counted = {name: {"capacity": {"rows": 1000, "evict": "least_frequent"}} for name in ("users", "posts", "tags")}
    ranker = declared(
        tables=counted,
        **{
            "ranks": 2,
            "batch_size_per_rank": 16,
            "epochs": EPOCHS,
            "shuffle_buffer": 300,
            "checkpoint": {"every_steps": EVERY_STEPS, "keep": 2},
            **changes,
        },
    )
    document = ranker.model_dump(mode="json", exclude_unset=True)
    del document["features"]["history"]
    document["model"] = {"kind": "shared_bottom", "bottom_units": [16], "tower_units": [8]}
    return RankerSpec.model_validate_json(json.dumps(document))


def report_of(directory: Path) -> dict[str, Any]:
    """Returns a job's report."""
    found: dict[str, Any] = json.loads((directory / "output" / "training.json").read_text())
    return found


def assert_trained_on_each_example_once_an_epoch(directory: Path, files: tuple[str, ...], epochs: int = EPOCHS) -> None:
    """Compares what a job's tables say with the data."""
    assert [epoch["examples"] for epoch in report_of(directory)["epochs"]] == [NUM_EXAMPLES] * epochs
    assert counted_ids(directory) == {key: epochs * count for key, count in occurrences(files).items()}


def counted_ids(directory: Path) -> dict[int, int]:
    """Returns how often a job's tables have met each key in training."""
    counted: dict[int, int] = {}
    for group in ("adagrad_4", "adagrad_8"):
        keys, rows = read_rows(directory / "final", group)
        counted |= dict(zip(keys.tolist(), rows[:, -1].copy().view(np.int32).tolist(), strict=True))
    return counted


def occurrences(files: tuple[str, ...], features: Iterable[str] = _IDS) -> Counter[int]:
    """Returns how often each key occurs in the data, in these features."""
    found: Counter[int] = Counter()
    for record in first_examples(files, NUM_EXAMPLES):
        feature = tf.train.Example.FromString(record).features.feature
        for name in features:
            found.update(feature[name].int64_list.value)
    return found

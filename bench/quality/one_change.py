"""Plain specs, and what one change of each gives: every column as its type says, and nothing tuned.

Measured on validation data, because defaults follow from it: Online Retail's October after training to September, a
fifth of the train rows of Census with all columns, its own validation split for the nominal columns, and the last train
day of the generated feed.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.quality.changes import NULL, combined
from schemas.loading import load_spec
from schemas.spec import Spec
from schemas.spec.features import NumericFeature

_VALIDATION_SHARE, _SEED = 0.2, 0
Change = dict[str, Any]


def census_validation(source: Path, folder: Path) -> Path:
    """Splits Census's train rows at random on the first call; returns the folder, with `train` and `test`."""
    if not (folder / "test").exists():
        rows = pq.read_table(source / "train" / "people.parquet")
        is_held_out = np.random.default_rng(_SEED).random(len(rows)) < _VALIDATION_SHARE
        for split, chosen in (("train", ~is_held_out), ("test", is_held_out)):
            (folder / split).mkdir(parents=True, exist_ok=True)
            pq.write_table(rows.filter(pa.array(chosen)), folder / split / "people.parquet")
    return folder


def rows_of(
    spec: Path, make: Callable[[], Any], fixed: Mapping[str, Any]
) -> Callable[[], Mapping[str, Mapping[str, Any]]]:
    """Returns what makes the rows of a plain spec's table: the plain spec, and each change of it alone.

    Args:
        spec: file of the plain spec.
        make: makes the data, unless it is there.
        fixed: what all rows have, such as another split.
    """

    def rows() -> Mapping[str, Mapping[str, Any]]:
        make()
        return {row: combined(fixed, change) for row, change in _changes(load_spec(spec)).items()}

    return rows


def encoded(spec: Spec, encoding: Mapping[str, Any]) -> Change:
    """Returns the change that encodes all numbers."""
    numbers = [name for name, feature in spec.features.items() if isinstance(feature, NumericFeature)]
    return {"features": {name: {"encoding": dict(encoding)} for name in numbers}} if numbers else {}


def _changes(spec: Spec) -> dict[str, Change]:
    rate = spec.training.dense_optimizer.learning_rate
    standard = encoded(spec, {"kind": "standard"})
    last_step: Change = {"training": {"average": NULL}}
    crosses: Change = {"model": {"interaction": {"kind": "dcn_v2"}}}
    dropout: Change = {"model": {"dropout": 0.1}}
    smoothing = {"kind": "cross_entropy", "label_smoothing": 0.02}
    found: dict[str, Change] = {"plain": {}}
    if standard:
        found |= {
            "standard numbers, last weights": combined(standard, last_step),
            "standard numbers": standard,
            "16 bins": encoded(spec, {"kind": "piecewise_linear", "bins": 16}),
            "periodic": encoded(spec, {"kind": "periodic"}),
        }
    return found | {
        "last weights": last_step,
        "average of the last epoch": {"training": {"average": {"kind": "last"}}},
        "DCN-v2": crosses,
        "dropout 0.1": dropout,
        "DCN-v2, dropout 0.1": combined(crosses, dropout),
        "dropout of rows 0.1": {"tables": {name: {"dropout": 0.1} for name in spec.tables}},
        "weight decay 0.01 (AdamW)": {
            "training": {"dense_optimizer": {"kind": "adamw", "learning_rate": rate, "weight_decay": 0.01}}
        },
        "label smoothing 0.02": {"tasks": {task: {"loss": smoothing} for task in spec.tasks}},
        "ensemble of 8": {"model": {"ensemble": {"members": 8}}},
    }

"""Scores batches of examples with the candidate and the baseline."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.steps.evaluator.models.examples import model_input
from sangam.components.steps.evaluator.models.loaded import load
from sangam.components.steps.evaluator.models.probe import call
from sangam.schemas.contracts.export import KNOWN_IDS, SERVE


@dataclass(frozen=True)
class Models:
    """The models to compare.

    Attributes:
        paths: paths of SavedModels, by the name of the model.
        knows_ids: model that reports its known ids; None if no slice needs them.
    """

    paths: Mapping[str, str]
    knows_ids: str | None = None


@dataclass(frozen=True)
class Scores:
    """The models' outputs for examples.

    Attributes:
        by_model: outputs by the name of the model.
        known_ids: mask by feature: whether the model has a row for each example's id; empty if no slice needs it.
    """

    by_model: Mapping[str, Mapping[str, NDArray[Any]]]
    known_ids: Mapping[str, NDArray[np.bool_]]


def scores_of(batch: pa.RecordBatch, models: Models) -> Scores:
    """Returns the models' outputs for a batch."""
    records = model_input(batch)
    loaded = {name: load(path) for name, path in models.paths.items()}
    by_model = {name: _arrays(call(model, SERVE, records)) for name, model in loaded.items()}
    known = {} if models.knows_ids is None else _arrays(call(loaded[models.knows_ids], KNOWN_IDS, records))
    return Scores(by_model, known)


def _arrays(outputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {name: values.numpy() for name, values in outputs.items()}

"""Creates blocks of scored examples from record batches and the models' scores."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.block import Block
from sangam.components.steps.evaluator.metrics.columns import MISSING, example_ids, first_values, keys, numbers
from sangam.components.steps.evaluator.metrics.draws import Units
from sangam.components.steps.evaluator.metrics.group_sums import SliceCodes
from sangam.components.steps.evaluator.metrics.measured import CANDIDATE, UNCALIBRATED
from sangam.components.steps.evaluator.metrics.settings import Settings
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats
from sangam.components.steps.evaluator.models.scoring import Scores
from sangam.components.steps.evaluator.plan import Plan
from sangam.components.steps.evaluator.slices.outside import texts_of
from sangam.components.steps.evaluator.slices.slicing import slice_codes
from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.spec.metrics import new_id_slice


def block_of(
    batch: pa.RecordBatch, scores: Scores, plan: Plan, whole: Callable[[], pa.RecordBatch]
) -> tuple[Block, list[SliceCodes]]:
    """Returns the scored examples of a batch, and their slices.

    Args:
        batch: the columns of `plan.read`.
        scores: outputs of the models.
        plan: what is measured.
        whole: returns the same examples with all columns.
    """
    settings = plan.settings
    values = {name: first_values(batch, column) for name, column in settings.columns.items()}
    values |= {name: texts_of(part, batch) for name, part in settings.sliced_by.items()}
    weights = {task: numbers(first_values(batch, column)) for task, column in settings.weights.items()}
    ids, units = _units(values, plan, whole)
    grouped_by = {part.by for part in (settings.group, settings.list) if part is not None}
    block = Block(
        ids=ids,
        units=units,
        groups={name: keys(values[name]) for name in sorted(grouped_by)},
        labels={task: _labels(batch, column, settings, task, weights) for task, column in plan.labels.items()},
        scores={(model, task): _scores_of(scores, model, task, len(ids), plan) for model, task in plan.targets},
        masked=frozenset(settings.masked),
        weights={task: np.nan_to_num(of_task, nan=0.0) for task, of_task in weights.items()},
    )
    for feature, is_known in scores.known_ids.items():
        known = is_known.reshape(-1)
        values[new_id_slice(feature)] = pa.array(np.ones(len(known), np.int64), mask=known)
    return block, _codes(plan, values, len(block))


def _units(values: Mapping[str, pa.Array], plan: Plan, whole: Callable[[], pa.RecordBatch]) -> tuple[Units, Units]:
    """Returns the hash of each example, and that of its bootstrap unit."""
    by = plan.settings.confidence.by
    if by is None:
        ids = example_ids(whole())
        return ids, ids
    units = keys(values[by])
    is_without = units == MISSING
    if not plan.needs_ids and not is_without.any():
        return units, units
    ids = example_ids(whole())
    # An example without a value of `by` is a separate unit.
    return ids, np.where(is_without, ids, units)


def _codes(plan: Plan, values: Mapping[str, pa.Array], size: int) -> list[SliceCodes]:
    return [slice_codes(spec, values, size) for spec in plan.slices]


def joined_codes(parts: Sequence[Sequence[SliceCodes]]) -> list[SliceCodes]:
    """Returns the slices of all examples, by each specification."""
    return [SliceCodes.joined([part[index] for part in parts]) for index in range(len(parts[0]))]


def _labels(batch: pa.RecordBatch, column: str, settings: Settings, task: str, weights: Mapping[str, Floats]) -> Floats:
    """Returns a task's labels, NaN for missing labels and masked examples, as in training."""
    labels = numbers(first_values(batch, column))
    only_where = settings.masked.get(task)
    if only_where is not None:
        labels = np.where(numbers(first_values(batch, only_where)) != 1, np.nan, labels)
    if task in settings.masked and task in weights:
        labels = np.where(np.isnan(weights[task]), np.nan, labels)
    return labels


def _scores_of(scores: Scores, model: str, task: str, size: int, plan: Plan) -> NDArray[np.floating[Any]]:
    if model == UNCALIBRATED:
        return _uncalibrated(_scores(scores.by_model[CANDIDATE].get(task), size), plan.calibrations[task])
    return _scores(scores.by_model[model].get(task), size)


def _uncalibrated(scores: NDArray[np.floating[Any]], calibration: Calibration) -> Floats:
    """Returns the predictions before the calibration, by inverting this strictly increasing function; float64.

    A served score is a float32, so that 1 - score has an error of 3e-8; NaN, and scores outside [0, 1], become NaN.
    """
    own, served = calibration.inverse(), scores.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logits = np.log(served) - np.log1p(-served)
        inside = np.clip(logits, own.logits[0], own.logits[-1])
        return 1.0 / (1.0 + np.exp(own.slope * (inside - logits) - np.interp(inside, own.logits, own.calibrated)))


def _scores(values: NDArray[Any] | None, size: int) -> NDArray[np.floating[Any]]:
    """Returns one score per example; NaN, which every gate refuses, where the model returns none or several."""
    if values is None or values.size != size:
        return np.full(size, np.nan, np.float32)
    scores = values.reshape(size)
    return scores if scores.dtype == np.float32 else scores.astype(np.float64)

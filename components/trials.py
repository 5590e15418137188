"""Calls the parts of others that are not the trainer's once, on a few made-up values, before anything runs."""

import datetime
import sys
from typing import Any

import numpy as np

from sangam.components.alerts.event import Event
from sangam.components.alerts.payloads import as_message
from sangam.components.outside import item_weights, metric_sums, metric_values, slice_texts
from sangam.schemas.checks.parts import outside_parts
from sangam.schemas.derived.columns import columns
from sangam.schemas.errors import UserError
from sangam.schemas.parts.calls import refused
from sangam.schemas.parts.columns import Column, ColumnType
from sangam.schemas.parts.judging import AlertTarget, Metric, NegativeSampler, Slice
from sangam.schemas.parts.kinds import Part
from sangam.schemas.spec import Spec

_VALUES: dict[ColumnType, Any] = {
    "float": np.array([0.0, 1.5, np.nan]),
    "int": np.array([1_700_000_000, 7, 0]),
    "string": np.array(["a", "b c", ""]),
}
_BESIDE = "returned other values for an example beside other examples", "values that follow from the example alone"
_KEY = "0123456789abcdef"
_EVENT = Event(
    kind="test",
    pipeline="trial",
    step="",
    date=None,
    run="trial",
    reason="a trial",
    host="trial",
    sent_at=datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
)


def try_parts(spec: Spec) -> None:
    """Calls the metrics, slices, samplers and receivers of alerts of a spec; see `try_part`."""
    for _, part in outside_parts(spec):
        try_part(part, _type_of_items(spec))


def try_part(part: Part, items: ColumnType = "string") -> None:
    """Calls a part, unless it is one of the trainer.

    Args:
        part: the part.
        items: type of the items of a sampler.

    Raises:
        UserError: it is wrong; with its file and line.
    """
    match part:
        case Metric():
            _try_metric(part)
        case Slice():
            _try_slice(part)
        case NegativeSampler():
            item_weights(part, _VALUES[items], np.array([1, 20, 3]))
        case AlertTarget():
            as_message(part, _EVENT, _KEY if part.reads_key else "")


def _try_metric(metric: Metric) -> None:
    # Probabilities may be 0 and 1, labels of one class alone.
    labels, predictions = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.25, 0.75])
    sums_BS = metric_sums(metric, labels, predictions)
    apart_BS = [metric_sums(metric, labels[row : row + 1], predictions[row : row + 1])[0] for row in range(4)]
    if not all(len(each) == sums_BS.shape[1] for each in apart_BS) or not np.allclose(sums_BS, apart_BS, rtol=1e-9):
        raise refused(metric, *_BESIDE)
    for rows in (slice(0, 4), slice(1, 3)):
        sums_S = sums_BS[rows].sum(axis=0)
        metric_values(metric, np.stack([sums_S, np.zeros_like(sums_S)]))


def _try_slice(part: Slice) -> None:
    columns_made = [_made(column) for column in part.reads()]
    together = slice_texts(part, columns_made, size=3).tolist()
    apart = [slice_texts(part, [values[row : row + 1] for values in columns_made], size=1)[0] for row in range(3)]
    if together != apart:
        raise refused(part, *_BESIDE)


def _made(column: Column) -> Any:
    values = _VALUES[column.type]
    if not column.is_list:
        return values
    lists = np.empty(len(values), object)
    for length in range(len(values)):
        lists[length] = values[:length]
    return lists


def _type_of_items(spec: Spec) -> ColumnType:
    negatives = spec.data.negatives
    return next((each.type for each in columns(spec) if negatives and each.name == negatives.item), "string")


if __name__ == "__main__":
    try:
        try_parts(Spec.model_validate_json(sys.stdin.read()))
    except UserError as error:
        sys.exit(str(error))

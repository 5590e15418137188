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
from sangam.schemas.parts.columns import Column, ColumnType
from sangam.schemas.parts.judging import AlertTarget, Metric, NegativeSampler, Slice
from sangam.schemas.spec import Spec

_VALUES: dict[ColumnType, Any] = {
    "float": np.array([0.0, 1.5, np.nan]),
    "int": np.array([1_700_000_000, 7, 0]),
    "string": np.array(["a", "b c", ""]),
}
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
    """Calls metrics, slices, samplers and receivers of alerts.

    Raises:
        UserError: one is wrong; with its file and line.
    """
    for _, part in outside_parts(spec):
        match part:
            case Metric():
                _try_metric(part)
            case Slice():
                slice_texts(part, [_made(column) for column in part.reads()], size=3)
            case NegativeSampler():
                item_weights(part, _VALUES[_type_of_items(spec)], np.array([1, 20, 3]))
            case AlertTarget():
                as_message(part, _EVENT, _KEY if part.reads_key else "")


def _try_metric(metric: Metric) -> None:
    # Probabilities may be 0 and 1, labels of one class alone.
    labels, predictions = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.25, 0.75])
    for rows in (slice(0, 4), slice(1, 3)):
        sums_S = metric_sums(metric, labels[rows], predictions[rows]).sum(axis=0)
        metric_values(metric, np.stack([sums_S, np.zeros_like(sums_S)]))


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

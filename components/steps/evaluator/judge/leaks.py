"""Results that are too good: the AUC of a task, or of one column alone, suggests a feature from after the event."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.examples.leaks import BINS, MOST_TEXTS, NEARLY_ALONE, auc_alone
from sangam.components.steps.evaluator.metrics.measured import UNDEFINED, Metrics
from sangam.schemas.derived.columns import serving_columns, task_columns
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.tasks import BinaryTask


@dataclass(frozen=True)
class Leak:
    """A result that is too good.

    Attributes:
        auc: AUC above `NEARLY_ALONE`.
        reason: a sentence.
    """

    auc: float
    reason: str


def columns_of(inputs: Inputs) -> list[str]:
    """Returns the columns that `leaks_of` reads: labels of binary tasks, and all features that predictions have."""
    labels = {inputs.label_of(task) for task in _binary(inputs)}
    return sorted(labels | set(_features(inputs)))


def of_one_type(parts: Sequence[pa.Array]) -> pa.Array:
    """Returns lists of values as one column; a part without any value may not know its type."""
    kind = next((part.type for part in parts if not pa.types.is_null(part.type.value_type)), pa.list_(pa.null()))
    typed = [part if part.type == kind else pa.nulls(len(part), kind) for part in parts]
    return pa.concat_arrays(typed) if typed else pa.nulls(0, kind)


def leaks_of(inputs: Inputs, overall: Mapping[str, Metrics], rows: pa.Table) -> dict[str, list[Leak]]:
    """Returns what is too good of each task.

    Args:
        inputs: tasks and features.
        overall: metrics of each task over all examples.
        rows: a sample of the examples, lists of values in `columns_of`.
    """
    groups = {name: _groups(_column(rows, name)) for name in _features(inputs)}
    return {task: list(_leaks(inputs, task, overall[task], rows, groups)) for task in _binary(inputs)}


def _leaks(
    inputs: Inputs, task: str, metrics: Metrics, rows: pa.Table, groups: Mapping[str, NDArray[Any] | None]
) -> Iterator[Leak]:
    auc = metrics.get("auc", UNDEFINED).value
    if auc is not None and auc > NEARLY_ALONE:
        yield Leak(auc, f"{task} auc {auc:.4f} is above {NEARLY_ALONE}: is a feature known only after the event?")
    label = _column(rows, inputs.label_of(task))
    is_known = _lengths(label) > 0
    target = label.flatten().to_numpy(zero_copy_only=False)
    for name, of_rows in groups.items():
        if of_rows is None:
            continue
        alone = auc_alone(of_rows[is_known], target)
        if alone > NEARLY_ALONE:
            yield Leak(
                alone, f"{task}: column '{name}' alone has auc {alone:.4f}: leave it out if it is known after the event"
            )


def _binary(inputs: Inputs) -> list[str]:
    return [name for name, task in inputs.tasks.items() if isinstance(task, BinaryTask)]


def _features(inputs: Inputs) -> list[str]:
    # What a task reads too, such as the label of a rate, is known to be from after the event.
    return [column.name for column in serving_columns(inputs) if column.name not in _of_tasks(inputs)]


def _of_tasks(inputs: Inputs) -> set[str]:
    return {column.name for task in inputs.tasks for column in task_columns(inputs, task)}


def _column(rows: pa.Table, name: str) -> Any:
    column = rows.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _lengths(column: Any) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    return lengths


def _groups(column: Any) -> NDArray[Any] | None:
    """Returns the group of each row: its value, quantile or number of values; None for none, or too many texts."""
    lengths, values = _lengths(column), column.flatten()
    if not len(values):
        return None
    if lengths.max(initial=0) > 1:
        return np.minimum(lengths, BINS)
    encoded = values.dictionary_encode()
    different = len(encoded.dictionary)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        finite, ends = numbers[np.isfinite(numbers)], np.linspace(0, 1, BINS + 1)[1:-1]
        codes = np.asarray(encoded.indices)
        if different > BINS:
            codes = np.searchsorted(np.unique(np.quantile(finite, ends)), numbers, side="right")
    elif different > MOST_TEXTS:
        return None
    else:
        codes = np.asarray(encoded.indices)
    groups = np.full(len(lengths), different)
    groups[lengths > 0] = codes
    return groups

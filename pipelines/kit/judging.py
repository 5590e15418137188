"""What must hold for metrics and slices: the evaluator computes them part by part of the examples, and adds up."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.outside import metric_sums, metric_values, slice_texts
from sangam.pipelines.kit.around import rows_of
from sangam.pipelines.kit.failure import failure
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.judging import Metric, Slice

_ROWS = 200
_DTYPES: dict[str, Any] = {"float": np.float64, "int": np.int64, "string": str}
_MISSING = {"float": np.nan, "int": 0, "string": ""}


def check_metric(metric: Metric, seed: int) -> dict[str, str]:
    """Runs the checks of a metric; returns what each has seen.

    Raises:
        AssertionError: one does not hold.
    """
    generator = np.random.default_rng(seed)
    is_binary = "binary" in metric.task_kinds
    predictions = generator.random(_ROWS) if is_binary else generator.normal(size=_ROWS) ** 2
    labels = (generator.random(_ROWS) < predictions).astype(float) if is_binary else generator.normal(size=_ROWS) ** 2
    # Ends of what a model may predict, where logarithms and ratios have theirs.
    predictions[:2] = (0.0, 1.0)
    sums_BS = _by_rows(metric, lambda rows: metric_sums(metric, labels[rows], predictions[rows]))
    totals = np.stack([sums_BS.sum(0), sums_BS[::2].sum(0), np.zeros(sums_BS.shape[1])])
    values = metric_values(metric, totals)
    alone = np.stack([metric_values(metric, each) for each in totals])
    if not np.allclose(values, alone, rtol=1e-12, equal_nan=True):
        raise failure(metric, "values", f"several sums at once give {values}, each alone gives {alone}")
    if metric.largest is not None and np.nanmax(values) > metric.largest:
        raise failure(metric, "largest", f"is {np.nanmax(values):g}, above {metric.largest:g}")
    return {"rows": f"{_ROWS} alike in parts", "values": f"{values[0]:.4f} of {_ROWS}, {values[2]:.4f} of none"}


def check_slice(part: Slice, seed: int) -> dict[str, str]:
    """Runs the checks of slices; returns what each has seen.

    Raises:
        AssertionError: one does not hold.
    """
    read = part.reads()
    drawn = rows_of(read, _ROWS, seed)
    columns = [_array(column, [row[column.name] for row in drawn]) for column in read]
    texts = _by_rows(
        part, lambda rows: slice_texts(part, [each[rows] for each in columns], len(np.arange(_ROWS)[rows]))
    )
    found = sorted(set(texts.tolist()) - {""})
    return {"rows": f"{_ROWS} alike in parts", "slices": f"{len(found)}: {', '.join(found[:5])}"}


def _by_rows(part: Metric | Slice, compute: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
    """Returns the results of all rows, after a comparison with those of parts of them."""
    every = compute(slice(0, _ROWS))
    parts = np.concatenate([compute(slice(first, last)) for first, last in ((0, 1), (1, 70), (70, _ROWS))])
    if not np.array_equal(every, parts):
        row = int(np.argmax((every != parts).reshape(_ROWS, -1).any(1)))
        what = f"row {row} gives {every[row]} among {_ROWS} rows and {parts[row]} among fewer"
        raise failure(part, "rows", what)
    return every


def _array(column: Column, rows: list[list[Any]]) -> NDArray[Any]:
    dtype = _DTYPES[column.type]
    if not column.is_list:
        return np.array([row[0] if row else _MISSING[column.type] for row in rows], dtype)
    lists = np.empty(len(rows), object)
    for number, row in enumerate(rows):
        lists[number] = np.array(row, dtype)
    return lists

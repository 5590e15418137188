"""Rows of a small ranker, their statistics as the pipeline computes them, and the reference that is pushed."""

from typing import Any

import numpy as np
import pyarrow as pa

from sangam.components.drift.reference import reference_of
from sangam.components.reports.curves import Curve
from sangam.components.steps.statistics_gen.column import Column
from sangam.components.steps.statistics_gen.proto import to_proto
from sangam.schemas.contracts.drift_reference import DriftReference
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.drift import Drift, DriftBounds

INPUTS = Inputs.model_validate(
    {
        "features": {
            "user": {"kind": "id", "type": "string", "table": "users"},
            "post": {"kind": "id", "type": "string", "table": "posts", "column": "post id"},
            "price": {"kind": "numeric", "normalize": "zscore", "missing": 0},
            "topics": {"kind": "ids", "type": "int", "table": "topics", "combiner": "mean"},
        },
        "tasks": {"like": {"kind": "binary"}},
    }
)
BOUNDS = Drift(action="warn", every=DriftBounds(l_infinity=0.05, jensen_shannon=0.02, missing_share=0.1))
ROWS = 64
_TYPES = {"user": pa.binary(), "post id": pa.binary(), "price": pa.float32(), "topics": pa.int64()}


def rows() -> dict[str, list[Any]]:
    """Returns the rows: of each column a list of values, or None."""
    return {
        "user": [[b"u%d" % (row % 4)] for row in range(ROWS)],
        "post id": [[b"p%d" % (row % 16)] for row in range(ROWS)],
        "price": [None if row % 16 == 0 else [row / 4] for row in range(ROWS)],
        "topics": [list(range(row % 4)) or None for row in range(ROWS)],
    }


def statistics(of: dict[str, list[Any]]) -> Any:
    """Returns the statistics of rows."""
    columns = []
    for name, values in of.items():
        of_float = name == "price"
        kind = "float" if of_float else "int" if name == "topics" else "string"
        column = Column(name, kind, is_id=not of_float, error=0.0025)
        column.add(pa.array(values, pa.list_(_TYPES[name])))
        columns.append(column)
    return to_proto(columns, ROWS, 100)


def sample_statistics() -> Any:
    """Returns the statistics of the rows."""
    return statistics(rows())


def sample_reference(scores: dict[str, np.ndarray] | None = None) -> DriftReference:
    """Returns the reference of the rows, and of scores between 0 and 1000."""
    curves = {}
    for task, values in (scores or {}).items():
        edges = np.unique(np.append(values, [values.min() - 1, values.max() + 1]))
        counts, _ = np.histogram(-values, -edges[::-1])  # A bin has its upper edge.
        empty = [0.0] * len(counts)
        curves[task] = Curve(
            false_positive_rate=[],
            true_positive_rate=[],
            precision=[],
            score_edges=edges.tolist(),
            negatives=counts[::-1].tolist(),
            positives=empty,
        )
    return reference_of(INPUTS, BOUNDS, sample_statistics(), curves)


def requests() -> dict[str, np.ndarray]:
    """Returns the rows as inputs of `rank`."""
    of = rows()
    topics = np.full([ROWS, 3], -7)
    for row, values in enumerate(of["topics"]):
        topics[row, : len(values or ())] = values or []
    return {
        "user": np.array([value[0] for value in of["user"]], object),
        "post": np.array([value[0] for value in of["post id"]], object),
        "price": np.array([np.nan if value is None else value[0] for value in of["price"]], np.float32),
        "topics": topics,
        "topics_length": np.array([len(value or ()) for value in of["topics"]]),
    }

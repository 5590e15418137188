"""A column that tells the label is found among the examples, and noted or refused."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.components.steps.evaluator.judge.leaks import Leak, columns_of, leaks_of, of_one_type
from sangam.schemas.spec import Inputs
from tests.components.steps.evaluator.judge.sample_measurements import judged, metrics
from tests.errors import mentions

ROWS = 2000
INPUTS = Inputs.model_validate(
    {
        "features": {
            "seconds_to_like": {"kind": "numeric"},
            "length": {"kind": "numeric"},
            "tab": {"kind": "id", "type": "string", "table": "tabs"},
            "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
        },
        "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression"}},
    }
)


def _rows(**changed: list[list[Any]]) -> pa.Table:
    random = np.random.default_rng(0)
    like = random.integers(0, 2, ROWS)
    columns = {
        "like": [[int(label)] for label in like],
        "seconds_to_like": [[float(x)] for x in random.random(ROWS)],
        # Near to the label, but not above 0.99; some have none.
        "length": [[float(x)] if n % 10 else [] for n, x in enumerate(like + random.normal(size=ROWS) / 2)],
        "tab": [["abc"[n % 3]] for n in range(ROWS)],
        "tags": [["x"] * (n % 4) for n in range(ROWS)],
    }
    return pa.table(columns | {name: values(like) for name, values in changed.items()})  # type: ignore[operator]


TELLING: dict[str, Any] = {
    "seconds_to_like": lambda like: [[float(label * (n + 1))] for n, label in enumerate(like)],
    "length": lambda like: [[1.0] if label else [] for label in like],
    "tab": lambda like: [["no" if label else "yes"] for label in like],
    "tags": lambda like: [["x"] * int(1 + label) for label in like],
}


def _found(rows: pa.Table, auc: float | None = 0.8) -> list[Leak]:
    found = leaks_of(INPUTS, {"like": metrics(auc=auc), "watch": metrics(rmse=1.0)}, rows)
    assert list(found) == ["like"]
    return found["like"]


def test_columns_that_predict_a_little_are_no_leaks() -> None:
    assert columns_of(INPUTS) == ["length", "like", "seconds_to_like", "tab", "tags"]
    assert _found(_rows()) == []
    assert _found(_rows().slice(0, 0), auc=None) == []


def test_parts_and_columns_without_a_value_tell_nothing() -> None:
    empty, some = pa.array([None, []], pa.list_(pa.null())), pa.array([[1], []], pa.list_(pa.int64()))
    assert of_one_type([empty, some]).to_pylist() == [None, None, [1], []]
    assert of_one_type([]).to_pylist() == []
    rows = _rows()
    nothing = of_one_type([pa.nulls(ROWS, empty.type)])
    for column in ("length", "like"):
        assert _found(rows.set_column(rows.schema.get_field_index(column), column, nothing)) == []


@pytest.mark.parametrize("column", TELLING)
def test_a_column_that_tells_the_label_is_found(column: str) -> None:
    [leak] = _found(_rows(**{column: TELLING[column]}))
    assert leak.auc > 0.99
    assert mentions(leak.reason, f"like: ... '{column}' ... {leak.auc:.4f}")


@pytest.mark.parametrize(("auc", "count"), [(0.99, 0), (0.9901, 1)])
def test_an_auc_above_99_percent_is_found(auc: float, count: int) -> None:
    found = _found(_rows(), auc=auc)
    assert [mentions(leak.reason, "like auc 0.9901 ... 0.99") for leak in found] == [True] * count


@pytest.mark.parametrize("asked", ["note", "refuse"])
def test_a_leak_is_a_note_or_a_gate_that_fails(asked: str) -> None:
    leak = Leak(1.0, "like: column 'seconds_to_like' alone has auc 1.0000")
    gate = {"task": "like", "metric": "auc", "at_least": 0.7}
    verdict = judged(gate, {}, evaluation={"leaks": asked}, leaks={"like": [leak]})
    failed = [(each.kind, each.value, each.reason) for each in verdict.tasks["like"].failures]
    assert verdict.blessed == (asked == "note")
    assert failed == ([] if asked == "note" else [("leak", 1.0, leak.reason)])
    assert (leak.reason in verdict.notes) == (asked == "note")

"""Permutation importance on a model that is a function of its columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sangam.components.steps.evaluator.importance import importances, most_examples, shuffled_together
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.release import Evaluation

pytestmark = pytest.mark.slow

INPUTS = Inputs.model_validate(
    {
        "features": {
            "age": {"kind": "numeric", "column": "years", "encoding": {"kind": "standard"}},
            "noise": {"kind": "numeric", "encoding": {"kind": "standard"}},
            "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "sum", "weights": "tag_weights"},
        },
        "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression"}},
    }
)


def _lists(values: NDArray[Any]) -> pa.Array:
    return pa.array([[value] for value in values.tolist()])


@pytest.fixture
def rows() -> pa.RecordBatch:
    rng = np.random.default_rng(1)
    age, noise = rng.normal(size=(2, 2000))
    columns = {
        "years": age,
        "noise": noise,
        "tags": np.arange(2000).astype(str),
        "tag_weights": np.arange(2000.0),
        "like": (age + 0.5 * rng.normal(size=2000) > 0).astype(np.int64),
        "watch": 2 * age,
    }
    return pa.RecordBatch.from_pydict({name: _lists(values) for name, values in columns.items()})


def _score(batch: pa.RecordBatch) -> Mapping[str, NDArray[Any]]:
    years, tags, weights = (batch.column(name).flatten() for name in ("years", "tags", "tag_weights"))
    # Weights stay beside their ids.
    assert [int(tag) for tag in tags.to_pylist()] == weights.to_pylist()
    age = years.to_numpy()
    return {"like": 1 / (1 + np.exp(-age)), "watch": 2 * age}


def test_what_the_model_reads_matters_and_what_it_does_not_read_loses_nothing(rows: pa.RecordBatch) -> None:
    like, watch = importances(INPUTS, Evaluation(), {"like": "gauc", "watch": "rmse"}, rows, _score)
    assert (like.metric, watch.metric, like.examples) == ("auc", "rmse", 2000)
    first, *others = like.columns
    assert (first.columns, first.features) == (["years"], ["age"])
    assert first.value is not None
    assert first.lower is not None
    assert first.upper is not None
    assert 0.3 < first.lower < first.value < first.upper < 0.5
    assert [(each.columns, each.value) for each in others] == [(["noise"], 0.0), (["tags", "tag_weights"], 0.0)]
    # The standard deviation of the difference of two independent draws of twice the age.
    assert watch.columns[0].value == pytest.approx(2 * 2**0.5, rel=0.05)


def test_columns_of_lists_of_equal_lengths_are_shuffled_together() -> None:
    assert shuffled_together(INPUTS) == {("years",): ["age"], ("noise",): ["noise"], ("tags", "tag_weights"): ["tags"]}


def test_the_cost_is_bounded_for_any_number_of_columns() -> None:
    assert [most_examples(columns) for columns in (1, 20, 100)] == [3000, 3000, 1000]

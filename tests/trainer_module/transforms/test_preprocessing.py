"""Transform's graph, analyzed and applied by TensorFlow Transform on Beam, against NumPy."""

import json
from typing import Any

import numpy as np
import pytest

from sangam.schemas.derived.columns import EVENT_TIME
from sangam.schemas.spec import Inputs

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

INPUTS = Inputs.model_validate_json(
    json.dumps(
        {
            "features": {
                "plain": {"kind": "numeric", "column": "x", "normalize": "none"},
                "scored": {"kind": "numeric", "normalize": "zscore", "column": "x", "clip": [0, 100], "log": True},
                "scaled": {"kind": "numeric", "type": "int", "column": "hour", "normalize": "minmax"},
                "filled": {"kind": "numeric", "column": "y", "missing": 7, "normalize": "none"},
                "user": {"kind": "id", "column": "user_id", "type": "string", "table": "users", "missing": "nobody"},
                "post": {"kind": "id", "type": "int", "table": "posts"},
                "history": {"kind": "sequence", "type": "int", "table": "posts", "max_length": 2},
                "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "sum", "max_values": 3},
            },
            "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression", "label": "seconds"}},
            "event_time": "time",
        }
    )
)

ROWS: list[dict[str, list[Any]]] = [
    {"x": [0.0], "hour": [0], "y": [0.0], "user_id": ["u1"], "post": [0], "history": [3, 2, 1], "tags": ["a"]},
    {"x": [5e9], "hour": [23], "y": [], "user_id": [], "post": [-5], "history": [], "tags": []},
    {"x": [-4.0], "hour": [12], "y": [-1.5], "user_id": ["ü"], "post": [2**62], "history": [9], "tags": list("abcd")},
]
LABELS = [{"like": [0], "seconds": [0.5]}, {"like": [1], "seconds": [0.0]}, {"like": [0], "seconds": [-3.0]}]
TIMES = [1_322_000_001, 1_322_000_002, 2**40 + 1]
"""As float32 the first two would be equal."""


@pytest.fixture(scope="module")
def transformed() -> tuple[list[dict[str, Any]], Any]:
    from tests.trainer_module.transforms.analysis import analyzed

    return analyzed(
        INPUTS, [row | labels | {"time": [time]} for row, labels, time in zip(ROWS, LABELS, TIMES, strict=True)]
    )


def _keys(table: str, ids: list[Any]) -> list[int]:
    from sangam.trainer_module.transforms.keys import id_keys

    result: list[int] = id_keys(INPUTS.table_tags()[table], tf.constant(ids)).numpy().tolist()
    return result


def test_numbers_are_clipped_then_logged_then_normalized(transformed: Any) -> None:
    rows, _ = transformed
    logged = np.log1p(np.clip([0.0, 5e9, -4.0], 0, 100))
    scores = (logged - logged.mean()) / logged.std()
    np.testing.assert_allclose([row["scored"] for row in rows], scores, rtol=1e-4)
    np.testing.assert_allclose([row["scaled"] for row in rows], [0, 1, 12 / 23], rtol=1e-5)
    np.testing.assert_allclose([row["plain"] for row in rows], [0.0, 5e9, -4.0])


def test_zeros_stay_zeros_and_only_missing_values_take_the_declared_default(transformed: Any) -> None:
    rows, _ = transformed
    assert [row["filled"] for row in rows] == [0.0, 7.0, -1.5]
    assert [row["like"] for row in rows] == [0.0, 1.0, 0.0]
    assert [row["watch"] for row in rows] == [0.5, 0.0, -3.0]


def test_ids_become_keys_of_their_table_and_lists_keep_their_head(transformed: Any) -> None:
    rows, _ = transformed
    assert [row["user"] for row in rows] == _keys("users", ["u1", "nobody", "ü"])
    assert [row["post"] for row in rows] == _keys("posts", [0, -5, 2**62])
    assert [list(row["history"]) for row in rows] == [_keys("posts", [3, 2]), [], _keys("posts", [9])]
    assert [list(row["tags"]) for row in rows] == [_keys("tags", ["a"]), [], _keys("tags", ["a", "b", "c"])]


def test_the_time_of_an_event_passes_unchanged(transformed: Any) -> None:
    rows, _ = transformed
    assert [int(row[EVENT_TIME]) for row in rows] == TIMES


def test_a_request_without_labels_time_or_values_is_served(transformed: Any) -> None:
    _, saved = transformed
    after = {"like", "seconds", "time"}
    columns = {name: spec for name, spec in saved.raw_feature_spec().items() if name not in after}
    request = tf.io.parse_example(tf.constant([tf.train.Example().SerializeToString()]), columns)
    served = saved.transform_features_layer()(request)
    assert set(served) == set(INPUTS.features)
    assert float(served["scored"][0]) == 0.0
    assert int(served["post"][0]) == 0
    assert served["user"].numpy().tolist() == _keys("users", ["nobody"])
    assert served["history"].values.shape == (0,)

"""Every kind of feature and task through TensorFlow Transform, against NumPy."""

import json
import math
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.statistics import Bins, Boundaries, FeatureStatistics, Scale, Statistics, without_analysis
from sangam.schemas.derived.outputs import outputs
from sangam.schemas.spec import Inputs

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

MONDAY_S = 1_321_833_600
"""2011-11-21 00:00 UTC."""
INPUTS = Inputs.model_validate_json(
    json.dumps(
        {
            "features": {
                "price": {"kind": "numeric", "normalize": "zscore", "missing": 1},
                "position": {
                    "kind": "numeric",
                    "normalize": "zscore",
                    "type": "int",
                    "log": True,
                    "clip": [0, 10],
                    "at_serving": 3,
                },
                "same": {"kind": "numeric", "normalize": "zscore"},
                "bucket": {"kind": "buckets", "column": "price", "num_buckets": 2, "missing": 1},
                "price_row": {
                    "kind": "buckets",
                    "column": "price",
                    "num_buckets": 2,
                    "table": "prices",
                    "missing_row": True,
                    "at_serving": 100,
                },
                "third": {"kind": "buckets", "type": "int", "column": "time", "num_buckets": 3},
                "never": {"kind": "buckets", "num_buckets": 3, "table": "never", "missing_row": True},
                "user": {"kind": "id", "type": "string", "table": "users", "missing_row": True},
                "item": {"kind": "id", "type": "int", "table": "items", "missing": 4},
                "place": {"kind": "id", "type": "int", "table": "places", "at_serving": 7},
                "pair": {
                    "kind": "cross",
                    "columns": {"user": "string", "item": "int"},
                    "table": "pairs",
                    "missing_row": True,
                },
                "item_price": {
                    "kind": "cross",
                    "columns": {"price": "float", "item": "int"},
                    "table": "prices_of_items",
                    "missing_row": True,
                },
                "tags": {
                    "kind": "ids",
                    "type": "string",
                    "table": "tags",
                    "combiner": "mean",
                    "weights": "tag_weights",
                    "max_values": 2,
                },
                "first": {"kind": "sequence", "column": "seen", "type": "int", "table": "items", "max_length": 2},
                "last": {
                    "kind": "sequence",
                    "column": "seen",
                    "type": "int",
                    "table": "items",
                    "max_length": 2,
                    "keep": "last",
                },
                "image": {"kind": "vector", "dim": 2, "normalize": "l2", "missing": 0},
                "hour": {"kind": "time", "column": "time", "part": "hour", "utc_offset_minutes": 330},
                "weekday": {
                    "kind": "time",
                    "column": "signed_up",
                    "part": "weekday",
                    "table": "days",
                    "missing_row": True,
                },
                "age": {"kind": "age", "since": "posted", "at": "time", "missing": 5, "normalize": "none"},
                "again": {"kind": "match", "column": "item", "among": "seen", "type": "int"},
            },
            "tasks": {
                "click": {"kind": "binary"},
                "buy": {"kind": "binary", "only_where": "click", "example_weight": "worth"},
                "rating": {"kind": "regression", "missing_label": "mask"},
                "watch": {"kind": "watch_time"},
            },
        }
    )
)
ROWS: list[dict[str, list[Any]]] = [
    {
        "price": [1.0],
        "never": [],
        "position": [1],
        "same": [2.5],
        "user": ["ü"],
        "item": [34],
        "place": [5],
        "tags": ["a", "b", "c"],
        "tag_weights": [0.5, 2.0, 1.0],
        "seen": [3, 34, 9],
        "image": [3.0, 4.0],
        "time": [MONDAY_S + 3600],
        "signed_up": [MONDAY_S - 1],
        "posted": [MONDAY_S],
        "click": [1],
        "buy": [0],
        "worth": [2.0],
        "rating": [4.0],
        "watch": [30.0],
    },
    {
        "price": [],
        "never": [],
        "position": [9],
        "same": [2.5],
        "user": [],
        "item": [4],
        "place": [7],
        "tags": [],
        "tag_weights": [],
        "seen": [],
        "image": [],
        "time": [MONDAY_S + 19 * 3600],
        "signed_up": [],
        "posted": [],
        "click": [0],
        "buy": [1],
        "worth": [1.0],
        "rating": [],
        "watch": [0.0],
    },
    {
        "price": [8.0],
        "never": [],
        "position": [4],
        "same": [2.5],
        "user": ["u2"],
        "item": [],
        "place": [-1],
        "tags": ["b"],
        "tag_weights": [3.0],
        "seen": [8],
        "image": [0.0, 0.0],
        "time": [MONDAY_S + 90_000],
        "signed_up": [MONDAY_S],
        "posted": [MONDAY_S + 100_000],
        "click": [1],
        "buy": [1],
        "worth": [],
        "rating": [0.0],
        "watch": [7.5],
    },
]


@pytest.fixture(scope="module")
def transformed() -> tuple[list[dict[str, Any]], Any]:
    """Returns the transformed rows and the function that Transform saved."""
    from tests.trainer_module.transforms.analysis import analyzed

    return analyzed(INPUTS, ROWS)


def _column(transformed: Any, name: str) -> Any:
    return [np.asarray(row[name]).tolist() for row in transformed[0]]


def _keys(table: str, ids: list[Any]) -> list[int]:
    """Returns keys, `None` standing for a missing value."""
    from sangam.trainer_module.transforms.keys import id_keys, missing_key

    tag = INPUTS.table_tags()[table]
    return [missing_key(tag) if each is None else int(id_keys(tag, tf.constant([each]))[0]) for each in ids]


def test_the_outputs_are_those_that_the_spec_lists(transformed: Any) -> None:
    wanted = {}
    for listed in outputs(INPUTS):
        dtype = tf.float32 if listed.type == "float" else tf.int64
        shape = [listed.width] if listed.width > 1 else []
        wanted[listed.name] = tf.io.VarLenFeature(dtype) if listed.is_list else tf.io.FixedLenFeature(shape, dtype)
    assert transformed[1].transformed_feature_spec() == wanted


def test_statistics_are_each_features_own(transformed: Any) -> None:
    prices, positions = np.array([1.0, 1.0, 8.0]), np.log1p([1.0, 9.0, 4.0])
    for name, raw in {"price": prices, "position": positions}.items():
        np.testing.assert_allclose(_column(transformed, name), (raw - raw.mean()) / raw.std(), rtol=1e-5)
    assert _column(transformed, "same") == [0.0, 0.0, 0.0]


def test_predictions_assume_the_declared_value_of_a_bias_feature(transformed: Any) -> None:
    logged = np.log1p([1.0, 9.0, 4.0])
    score = (np.log1p(3.0) - logged.mean()) / logged.std()
    np.testing.assert_allclose(_column(transformed, "position/serving"), [score] * 3, rtol=1e-5)
    assert _column(transformed, "place") == _keys("places", [5, 7, -1])
    assert _column(transformed, "place/serving") == _keys("places", [7, 7, 7])
    assert _column(transformed, "price_row/serving") == _keys("prices", [1, 1, 1])


def test_a_bucket_is_a_share_or_a_row_and_missing_numbers_are_in_none(transformed: Any) -> None:
    assert _column(transformed, "bucket") == [0.75, 0.75, 0.75]
    assert _column(transformed, "price_row") == _keys("prices", [0, None, 1])
    np.testing.assert_allclose(_column(transformed, "third"), [1 / 6, 1 / 2, 5 / 6], rtol=1e-6)
    assert _column(transformed, "never") == _keys("never", [None] * 3)


def test_a_missing_id_has_a_row_that_no_id_has(transformed: Any) -> None:
    assert _column(transformed, "user") == _keys("users", ["ü", None, "u2"])
    assert _column(transformed, "item") == _keys("items", [34, 4, 4])


def test_a_cross_is_a_key_of_both_ids_in_the_order_of_their_columns(transformed: Any) -> None:
    assert _column(transformed, "pair") == _keys("pairs", ["2:34ü", None, None])
    assert _column(transformed, "item_price") == _keys("prices_of_items", ["2:341.000000", None, None])


def test_lists_keep_their_head_with_its_weights(transformed: Any) -> None:
    assert _column(transformed, "tags") == [_keys("tags", ["a", "b"]), [], _keys("tags", ["b"])]
    assert _column(transformed, "tags/weights") == [[0.5, 2.0], [], [3.0]]


def test_a_sequence_has_the_most_recent_id_first(transformed: Any) -> None:
    assert _column(transformed, "first") == [_keys("items", [3, 34]), [], _keys("items", [8])]
    assert _column(transformed, "last") == [_keys("items", [9, 34]), [], _keys("items", [8])]


def test_a_vector_is_brought_to_length_1_and_zeros_stay(transformed: Any) -> None:
    np.testing.assert_allclose(_column(transformed, "image"), [[0.6, 0.8], [0, 0], [0, 0]], rtol=1e-6)


def test_hours_and_weekdays_are_those_of_the_clock_that_counts(transformed: Any) -> None:
    angles = 2 * np.pi / 24 * np.array([6, 0, 6])
    np.testing.assert_allclose(_column(transformed, "hour"), np.stack([np.sin(angles), np.cos(angles)], 1), atol=1e-6)
    assert _column(transformed, "weekday") == _keys("days", [6, None, 0])


def test_ages_are_in_their_unit_and_not_negative(transformed: Any) -> None:
    np.testing.assert_allclose(_column(transformed, "age"), np.log1p([1.0, 5.0, 0.0]), rtol=1e-6)


def test_the_age_of_a_time_that_is_none_does_not_wrap() -> None:
    from sangam.schemas.spec.features import AgeFeature
    from sangam.trainer_module.transforms.times import ages

    feature = AgeFeature(kind="age", since="posted", at="time", unit="days", missing=0)
    ends = _sparse([[-(2**63)], [2**63 - 1]], tf.int64), _sparse([[2**63 - 1], [-(2**63)]], tf.int64)
    np.testing.assert_allclose(ages(feature, *ends), [2**62 / 86_400, 0], rtol=1e-6)


def test_an_id_matches_where_the_list_has_it(transformed: Any) -> None:
    assert _column(transformed, "again") == [1.0, 0.0, 0.0]


def test_an_example_that_takes_no_part_in_a_task_has_no_label(transformed: Any) -> None:
    np.testing.assert_equal(_column(transformed, "click"), [1.0, 0.0, 1.0])
    np.testing.assert_equal(_column(transformed, "buy"), [0.0, math.nan, math.nan])
    assert _column(transformed, "buy/example_weight") == [2.0, 1.0, 0.0]
    np.testing.assert_equal(_column(transformed, "rating"), [4.0, math.nan, 0.0])
    assert _column(transformed, "watch") == [30.0, 0.0, 7.5]


def _sparse(values: list[list[Any]], dtype: Any) -> Any:
    return tf.cast(tf.ragged.constant(values, dtype=dtype, ragged_rank=1).to_sparse(), dtype)


def test_a_request_gives_one_user_and_many_candidates(transformed: Any) -> None:
    rows, saved = transformed
    once = {"user", "seen", "time"}
    types = {"user": tf.string, "tags": tf.string, "item": tf.int64, "seen": tf.int64, "time": tf.int64}
    types |= {"signed_up": tf.int64, "posted": tf.int64}
    from sangam.schemas.derived.columns import serving_columns

    request = {}
    for column in serving_columns(INPUTS):
        chosen = ROWS[:1] if column.name in once else ROWS[:2]
        values = [row[column.name] for row in chosen]
        request[column.name] = _sparse(values, types.get(column.name, tf.float32))
    served = saved.transform_features_layer()(request)
    after = {"click", "buy", "rating", "watch", "buy/example_weight", "position", "place"}
    # The column of the third bias feature is also read by one that is none, so that a request has it.
    assert set(served) == {listed.name for listed in outputs(INPUTS)} - after
    for name in ("price", "tags/weights", "image", "weekday"):
        got = served[name]
        got = tf.RaggedTensor.from_sparse(got) if isinstance(got, tf.SparseTensor) else got
        assert [np.asarray(value).tolist() for value in got] == [np.asarray(row[name]).tolist() for row in rows[:2]]
    assert served["pair"].numpy().tolist() == _keys("pairs", ["2:34ü", "1:4ü"])
    np.testing.assert_equal(served["again"].numpy(), [1.0, 0.0])
    np.testing.assert_allclose(served["age"].numpy(), np.log1p([1.0, 5.0]), rtol=1e-6)
    assert served["first"].dense_shape.numpy()[0] == 1
    assert served["position/serving"].shape == served["place/serving"].shape


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"image": [[1.0]]}, "a vector has 2 floats"), ({"tag_weights": [[]]}, "each id .*weight")],
)
def test_a_vector_or_weights_of_another_length_are_refused(transformed: Any, wrong: Any, told: str) -> None:
    from sangam.schemas.derived.columns import serving_columns

    types = {"float": tf.float32, "int": tf.int64, "string": tf.string}
    request = {
        column.name: _sparse(wrong.get(column.name) or [ROWS[0][column.name]], types[column.type])
        for column in serving_columns(INPUTS)
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        transformed[1].transform_features_layer()(request)


def _num_operations(times: int) -> int:
    """Returns how many operations so many features of each of these kinds take, their columns not counted."""
    from sangam.schemas.derived.columns import columns
    from sangam.trainer_module.transforms.preprocessing import preprocessing_fn

    kinds = {
        "scored": {"kind": "numeric", "normalize": "zscore", "missing": 0, "clip": [0, 1], "log": True},
        "binned": {"kind": "numeric", "missing": "learned", "encoding": {"kind": "piecewise_linear", "bins": 3}},
        "cut": {"kind": "buckets", "num_buckets": 4},
        "text": {"kind": "id", "type": "string", "table": "texts"},
        "number": {"kind": "id", "type": "int", "table": "numbers", "missing_row": True},
        "set": {"kind": "ids", "type": "string", "table": "texts", "combiner": "sum", "weights": "w"},
        "recent": {"kind": "sequence", "type": "string", "table": "texts", "max_length": 3, "keep": "last"},
        "pair": {"kind": "cross", "columns": {"a": "string", "b": "int"}, "table": "pairs"},
    }
    features = {f"{name}_{each}": feature for name, feature in kinds.items() for each in range(times)}
    declared = Inputs.model_validate_json(json.dumps({"features": features, "tasks": {"like": {"kind": "binary"}}}))
    types = {"float": tf.float32, "int": tf.int64, "string": tf.string}
    found = {
        "scored": Scale(offset=0.5, width=0.1),
        "binned": Bins(ends=(1.0, 2.0)),
        "cut": Boundaries(lowest=(1.0, 2.0, 3.0)),
    }
    statistics = Statistics(
        code="",
        features={
            name: FeatureStatistics(spec=each.spec, analyzed=found[name.split("_")[0]])
            for name, each in without_analysis(declared).items()
        },
    )
    with tf.Graph().as_default() as graph:
        raw = {each.name: tf.compat.v1.sparse_placeholder(types[each.type], [None, None]) for each in columns(declared)}
        before = len(graph.get_operations())
        preprocessing_fn(raw, {"inputs": declared.model_dump_json(), "statistics": statistics.model_dump_json()})
        return len(graph.get_operations()) - before


def test_the_graph_grows_by_casts_alone_with_the_number_of_features() -> None:
    assert _num_operations(20) - _num_operations(10) < 100

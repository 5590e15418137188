"""Events of sequences with actions, amounts and times: from columns of the logs to vectors, against NumPy."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.statistics import Statistics
from sangam.schemas.spec import RankerSpec

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

MOST = 3
EVENTS: dict[str, Any] = {
    "kind": "sequence",
    "column": "items",
    "type": "int",
    "table": "posts",
    "max_length": MOST,
    "keep": "last",
    "beside": {
        "action": {"kind": "id", "column": "actions", "type": "string", "table": "actions"},
        "seconds": {"kind": "amount", "unit": 0.5},
        "clicks": {"kind": "amount", "type": "int"},
    },
    "times": {"column": "times", "at": "shown"},
    "positions": True,
}
SPEC = RankerSpec.model_validate_json(
    json.dumps(
        {
            "name": "events",
            "tables": {"posts": {"dim": 3}, "actions": {"dim": 3, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}},
            "features": {
                "post": {"kind": "id", "type": "int", "table": "posts"},
                "mean": EVENTS,
                "din": {**EVENTS, "keep": "first", "encoder": {"kind": "din", "target": "post", "units": [4]}},
            },
            "tasks": {"like": {"kind": "binary"}},
            "model": {"kind": "single_task", "tower_units": [5]},
            "training": {
                "batch_size_per_rank": 8,
                "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
                "embedding_optimizer": {"kind": "adam", "learning_rate": 0.01},
            },
        }
    )
)
ROWS: dict[str, list[list[Any]]] = {
    "post": [[1], [2], [3], [4]],
    "items": [[5, 6, 7, 8], [], [6], [9, 5]],
    "actions": [["view", "like", "view", "share"], [], ["like"], ["view", "view"]],
    "seconds": [[0.1, 0.3, 5.0, 100.0], [], [-2.0], [0.0, 1e12]],
    "clicks": [[1, 0, 2, 9], [], [3], [-1, 4]],
    "times": [[100, 200, 297, 300], [], [1_000], [50, 90_000]],
    "shown": [[302], [5], [7], []],
}
"""The third event is later than its row; the last row lacks its time, and is as old as its newest event."""
AGES = [[2.0, 5.0, 102.0], [], [0.0], [0.0, 89_950.0]]
"""Most recent first, as `mean` keeps them."""
TYPES = {"actions": "string", "seconds": "float32"}


def table(keys: Any) -> Any:
    """Returns a row for every key: no two are alike."""
    return tf.sin(tf.cast(keys % 1_000_003, tf.float32)[:, None] * tf.constant([0.3, 0.7, 1.1]) + 0.5)


def made(rows: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, Any]:
    """Returns Transform's outputs for columns of the logs."""
    from sangam.trainer_module.transforms.preprocessing import features_of

    columns = {
        name: tf.ragged.constant(values, TYPES.get(name, "int64"), ragged_rank=1).to_sparse()
        for name, values in rows.items()
    }
    return features_of(SPEC.inputs(), Statistics(code="", features={}), columns)


def ranker_and_weights() -> tuple[Any, dict[str, Any]]:
    from sangam.trainer_module.ranker import Ranker

    ranker = Ranker(SPEC)
    flat = np.random.default_rng(2).normal(scale=0.4, size=ranker.weights.size).astype(np.float32)
    return ranker, ranker.weights.unpack(tf.constant(flat))


def bucket(number: float, unit: float = 1.0) -> int:
    return min(int(2 * math.log2(1 + max(number, 0) / unit)), 63)


def test_an_event_is_the_sum_of_its_rows_and_of_the_vectors_of_its_buckets() -> None:
    from sangam.trainer_module.transforms.keys import id_keys

    ranker, weights = ranker_and_weights()
    batch = ranker.layout.pack_features(made(ROWS))
    embeddings = {group: table(keys) for group, keys in ranker.keys(batch).items()}
    assert len(embeddings) == 2
    inputs = ranker._inputs_of_batch(weights, batch, embeddings).numpy()
    names = [name for name, _ in ranker.inputs.embeddings]
    found = np.split(inputs, len(names), axis=1)[names.index("mean")]

    def row(of: str, name: Any) -> Any:
        return table(id_keys(SPEC.table_tags()[of], tf.constant([str(name)]))).numpy()[0]

    of_buckets = {name: weights[f"events/mean/{name}"].numpy() for name in ("amounts/seconds", "amounts/clicks")}
    ages, positions = (weights[f"events/mean/{name}"].numpy() for name in ("ages", "positions"))
    for number, ages_of_row in enumerate(AGES):
        newest = slice(None, -MOST - 1, -1)
        events = zip(*(ROWS[name][number][newest] for name in ("items", "actions", "seconds", "clicks")), strict=True)
        expected = [
            row("posts", item)
            + row("actions", action)
            + of_buckets["amounts/seconds"][bucket(seconds, 0.5)]
            + of_buckets["amounts/clicks"][bucket(clicks)]
            + ages[bucket(age)]
            + positions[bucket(position)]
            for position, ((item, action, seconds, clicks), age) in enumerate(zip(events, ages_of_row, strict=True))
        ]
        np.testing.assert_allclose(found[number], np.mean(expected or [[0.0] * 3], axis=0), rtol=1e-5, atol=1e-6)


def test_encoders_are_given_the_age_of_each_event_in_seconds() -> None:
    ranker, _ = ranker_and_weights()
    batch = ranker.layout.pack_features(made(ROWS))
    found = ranker.layout.events(batch)["mean/times"].numpy()
    np.testing.assert_array_equal(found, np.concatenate(AGES).astype(np.float32))


@pytest.mark.parametrize("column", ["actions", "seconds", "times"])
def test_a_batch_whose_lists_beside_ids_are_shorter_is_refused(column: str) -> None:
    ranker, _ = ranker_and_weights()
    shorter = {**ROWS, column: [values[:1] for values in ROWS[column]]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="one value beside each id"):
        ranker.layout.pack_features(made(shorter))


@pytest.mark.parametrize("of_requests", [(5,), (2, 3), (1,), (1, 1)])
@pytest.mark.parametrize("shown", ["shared", "equal", "different", "missing"])
def test_candidates_score_as_the_trainer_does_whatever_rows_the_time_has(
    of_requests: tuple[int, ...], shown: str
) -> None:
    """Where a request's rows differ in time, so do the ages of the one list that they share."""
    from sangam.trainer_module.dense.split import Requests
    from sangam.trainer_module.serving.candidates import candidate_logits, in_request

    ranker, weights = ranker_and_weights()
    of_row = np.repeat(np.arange(len(of_requests)), of_requests)
    times = [[] for _ in of_row] if shown == "missing" else [[400 + 7 * number] for number in of_row]
    if shown == "different":
        times = [[310 + 1_000 * number] for number in range(len(of_row))]
    lists = {name: values[: len(of_requests)] for name, values in ROWS.items() if name not in ("post", "shown")}
    posts = [[number] for number in range(len(of_row))]
    at = [times[number] for number in np.unique(of_row, return_index=True)[1]] if shown == "shared" else times
    once = in_request(made({**lists, "post": posts, "shown": at}))

    def logits(number: Any) -> Any:
        return candidate_logits(ranker, weights, once, dict.fromkeys(ranker.groups, table), Requests.of(number))

    got = tf.function(logits, autograph=False)(tf.constant(of_row, tf.int32)).numpy()
    repeated = {name: [values[number] for number in of_row] for name, values in lists.items()}
    batch = ranker.layout.pack_features(made({**repeated, "post": posts, "shown": times}))
    embeddings = {group: table(keys) for group, keys in ranker.keys(batch).items()}
    expected = ranker.logits(weights, batch, embeddings).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    assert len(expected) == 1 or np.std(expected) > 1e-3

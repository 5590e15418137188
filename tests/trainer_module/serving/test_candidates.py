"""One user's candidates score as the trainer's forward does when the user's columns are repeated for each."""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from sangam.schemas.derived.once import once_a_request
from sangam.schemas.spec import RankerSpec

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

CANDIDATES = 7
IN_BINS = {"kind": "piecewise_linear", "bins": 3, "dim": 2}
IN_WAVES = {"kind": "periodic", "frequencies": 2, "dim": 3}
HISTORY = {"kind": "sequence", "type": "int", "table": "posts", "max_length": 4}
FEATURES: dict[str, Any] = {
    "user": {"kind": "id", "type": "int", "table": "users"},
    "post": {"kind": "id", "type": "int", "table": "posts"},
    "friend": {"kind": "id", "type": "int", "table": "users"},
    "tags": {"kind": "ids", "type": "int", "table": "tags", "combiner": "sqrtn"},
    "likes": {"kind": "ids", "type": "int", "table": "tags", "combiner": "mean"},
    "to_post": {**HISTORY, "encoder": {"kind": "din", "target": "post", "units": [4, 3]}},
    "by_place": {**HISTORY, "encoder": {"kind": "positional"}},
    "age": {"kind": "numeric", "encoding": IN_BINS, "missing": "learned"},
    "length": {"kind": "numeric", "encoding": IN_BINS, "missing": "learned"},
    "hour": {"kind": "numeric", "encoding": IN_WAVES},
    "speed": {"kind": "numeric", "encoding": IN_WAVES},
    "price": {"kind": "numeric", "encoding": {"kind": "standard"}},
    "place": {"kind": "vector", "dim": 2},
}
OF_USER = ("user", "likes", "to_post", "by_place", "age", "hour", "place")
CHAIN = ["click", "buy"]
MODELS: dict[str, dict[str, Any]] = {
    "single_task": {"tower_units": [6, 3]},
    "shared_bottom": {"bottom_units": [6, 5]},
    "mmoe": {"num_experts": 3, "expert_units": [6, 5], "top_k": 2},
    "ple": {"num_levels": 2, "expert_units": [6, 5]},
    "esmm": {"chain": CHAIN},
    "aitm": {"chain": CHAIN},
}
INTERACTIONS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "full": {"kind": "dcn_v2", "deep_units": [7]},
    "low_rank": {"kind": "dcn_v2", "rank": 3},
    "mixed": {"kind": "dcn_v2", "rank": 2, "num_experts": 2},
    "mixed_wide": {"kind": "dcn_v2", "rank": 3, "num_experts": 2, "deep_units": [7]},
    "dlrm": {"kind": "dlrm", "bottom_units": [7]},
}


def declared(kind: str, interaction: str, features: Any = FEATURES, **model: Any) -> RankerSpec:
    made = {"kind": kind, **MODELS[kind], "interaction": INTERACTIONS[interaction], **model}
    return RankerSpec.model_validate_json(
        json.dumps(
            {
                "name": "candidates",
                "tables": {each["table"]: {"dim": 4} for each in features.values() if "table" in each},
                "features": features,
                "tasks": {task: {"kind": "binary"} for task in CHAIN},
                "model": {key: value for key, value in made.items() if value is not None},
                "training": {
                    "batch_size_per_rank": 8,
                    "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
                    "embedding_optimizer": {"kind": "adam", "learning_rate": 0.01},
                },
            }
        )
    )


def table(keys: Any) -> Any:
    """Returns a row for every key: no two are alike."""
    return tf.sin(tf.cast(keys, tf.float32)[:, None] * tf.constant([0.3, 0.7, 1.1, 1.9]) + 0.5)


def asked(
    ranker: Any, shared: tuple[str, ...], of_requests: tuple[int, ...]
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Returns Transform's outputs for requests, the same with the shared ones repeated, and each row's request.

    Args:
        ranker: the ranker.
        shared: features of one row a request.
        of_requests: candidates of each request.
    """
    random, once, repeated = np.random.default_rng(3), {}, {}
    widths, number_C = dict(ranker.layout.floats), np.repeat(np.arange(len(of_requests)), of_requests)
    for name in ranker.spec.features:
        rows = len(of_requests) if name in shared else sum(of_requests)
        row_C = number_C if name in shared else np.arange(rows)
        if name in widths:
            shape = [rows] if widths[name] == 1 else [rows, widths[name]]
            once[name] = tf.constant(random.normal(size=shape, scale=2).astype(np.float32))
        elif name in ranker.layout.all_ids:
            once[name] = tf.constant(random.integers(0, 50, rows))
        else:
            lists = [random.integers(0, 50, random.integers(0, 5)).tolist() for _ in range(rows)]
            once[name] = tf.ragged.constant(lists, dtype=tf.int64, row_splits_dtype=tf.int64)
            repeated[name] = tf.gather(once[name], row_C).to_sparse()
            continue
        repeated[name] = tf.gather(once[name], row_C)
    return once, repeated, tf.constant(number_C, tf.int32)


@contextmanager
def split_matrices() -> Iterator[set[str]]:
    """Yields the names of the matrices whose product is computed in two parts."""
    from sangam.trainer_module.dense.split import Split

    found, product = set[str](), Split.product

    def recorded(x: Any, weights: Any, matrix: str, *names: str, **more: Any) -> Any:
        found.add(matrix)
        return product(x, weights, matrix, *names, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Split, "product", recorded)
        yield found


def scores(spec: RankerSpec, shared: tuple[str, ...], *of_requests: int, in_graph: bool = False) -> tuple[Any, Any]:
    """Returns the logits of requests, and those of the trainer's forward.

    Args:
        spec: the ranker.
        shared: features of one row a request.
        of_requests: candidates of each request.
        in_graph: whether TensorFlow may fuse the requests' operations, as in an exported model.
    """
    from sangam.trainer_module.dense.split import Requests
    from sangam.trainer_module.ranker import Ranker
    from sangam.trainer_module.serving.candidates import candidate_logits

    ranker = Ranker(spec)
    flat = np.random.default_rng(2).normal(scale=0.4, size=ranker.weights.size).astype(np.float32)
    weights = ranker.weights.unpack(tf.constant(flat))
    once, repeated, number_C = asked(ranker, shared, of_requests)
    tables = dict.fromkeys(ranker.groups, table)

    def logits(number: Any) -> Any:
        return candidate_logits(ranker, weights, once, tables, Requests.of(number))

    got = (tf.function(logits, autograph=False) if in_graph else logits)(number_C)
    batch = ranker.layout.pack_features(repeated)
    embeddings = {group: table(keys) for group, keys in ranker.keys(batch).items()}
    return got.numpy(), ranker.logits(weights, batch, embeddings).numpy()


@pytest.mark.parametrize(("kind", "interaction"), itertools.product(MODELS, INTERACTIONS))
def test_every_architecture_and_interaction_scores_as_the_trainer_does(kind: str, interaction: str) -> None:
    spec = declared(kind, interaction)
    for of_requests in ((CANDIDATES,), (3, 1, 5)):
        with split_matrices() as found:
            got, expected = scores(spec, OF_USER, *of_requests)
        assert found == set(once_a_request(spec).matrices)
        assert got.shape == (sum(of_requests), 2)
        assert np.std(expected, axis=0).min() > 1e-3
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("interaction", ["none", "mixed"])
def test_an_ensemble_scores_as_the_trainer_does(interaction: str) -> None:
    spec = declared("shared_bottom", interaction, ensemble={"members": 3})
    got, expected = scores(spec, OF_USER, 4, 2, 1, in_graph=True)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("own", "of_requests"),
    [
        (tuple(FEATURES), (5,)),
        (("user", "price"), (5,)),
        ((), (5,)),
        ((), (1,)),
        ((), (2, 3)),
        ((), (1, 1)),
    ],
)
def test_any_columns_may_be_of_one_row(own: tuple[str, ...], of_requests: tuple[int, ...]) -> None:
    """In a graph: a product of no columns ends the process there, and each of these requests may come."""
    shared = tuple(set(FEATURES) - set(own))
    got, expected = scores(declared("mmoe", "low_rank"), shared, *of_requests, in_graph=True)
    assert got.shape == (sum(of_requests), 2)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


_IN_TURN = {"target": "post", "num_layers": 2}
LISTS_ONCE: dict[str, Any] = {
    "user": FEATURES["user"],
    "post": FEATURES["post"],
    "by_hstu": {**HISTORY, "encoder": {"kind": "hstu", **_IN_TURN}},
    "to_post": FEATURES["to_post"],
    "by_transformer": {**HISTORY, "encoder": {"kind": "target_transformer", **_IN_TURN}},
}


@pytest.mark.parametrize(
    ("own", "of_requests"),
    [
        (("post",), (5,)),
        (("post", "by_hstu"), (3, 1, 2)),
        (("user",), (2, 2)),
        (tuple(LISTS_ONCE), (1, 1)),
    ],
)
def test_lists_that_are_encoded_once_score_as_if_repeated(own: tuple[str, ...], of_requests: tuple[int, ...]) -> None:
    shared = tuple(set(LISTS_ONCE) - set(own))
    spec = declared("single_task", "none", LISTS_ONCE)
    got, expected = scores(spec, shared, *of_requests, in_graph=True)
    assert got.shape == (sum(of_requests), 2)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)

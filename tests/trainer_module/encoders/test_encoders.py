"""Lists of embeddings, combined and encoded, against NumPy."""

import math
from typing import Any

import numpy as np
import pytest

from sangam.schemas.derived.weights import encoder_weights
from sangam.schemas.spec.encoders import DinEncoder, HstuEncoder, TargetTransformerEncoder, TransformerEncoder
from sangam.schemas.spec.features import SequenceFeature

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

DIM = 4
LENGTHS = (3, 0, 1)
VALUES = np.random.default_rng(0).normal(size=(sum(LENGTHS), DIM)).astype(np.float32)


def _built(encoder: Any) -> tuple[Any, dict[str, Any]]:
    from sangam.trainer_module.encoders import build_encoder

    feature = SequenceFeature(kind="sequence", type="int", table="t", max_length=5, encoder=encoder)
    built = build_encoder("f", feature, DIM)
    generator = np.random.default_rng(1)
    declared = encoder_weights("f", feature, DIM)
    return built, {weight.name: generator.normal(size=weight.shape).astype(np.float32) for weight in declared}


def _encoded(
    encoder: Any, weights: dict[str, Any], lengths: Any, values: Any, target: Any = None, **more: Any
) -> np.ndarray:
    from sangam.trainer_module.encoders.lists import Lists

    lists = Lists(tf.constant(values), tf.constant(lengths, tf.int64), **more)
    found: np.ndarray = encoder(weights, lists, None if target is None else tf.constant(target)).numpy()
    return found


def test_lists_are_combined_by_their_own_rule_and_empty_ones_are_zeros() -> None:
    from sangam.trainer_module.encoders.pooling import COMBINERS, combine

    values = np.arange(14, dtype=np.float32).reshape(7, 2)
    weights = np.array([1, 2, 3, 1, 5, 2, -2], np.float32)
    lengths = tf.constant([2, 0, 2, 1, 2], tf.int64)
    how = tf.constant([COMBINERS.index(each) for each in ("sum", "mean", "sqrtn", "mean", "mean")])
    plain = combine(tf.constant(values), lengths, how).numpy()
    expected = [values[0] + values[1], [0, 0], (values[2] + values[3]) / math.sqrt(2), values[4]]
    np.testing.assert_allclose(plain, [*expected, (values[5] + values[6]) / 2], rtol=1e-6)
    weighted = combine(tf.constant(values), lengths, how, tf.constant(weights)).numpy()
    expected = [values[0] + 2 * values[1], [0, 0], (3 * values[2] + values[3]) / math.sqrt(10), values[4]]
    # Weights that add up to nothing have no mean.
    np.testing.assert_allclose(weighted, [*expected, [0, 0]], rtol=1e-6)


def test_positional_weights_are_a_softmax_over_the_positions_present() -> None:
    from sangam.schemas.spec.encoders import PositionalEncoder

    encoder, weights = _built(PositionalEncoder(kind="positional"))
    ((name, logits),) = weights.items()
    assert name == "encoders/f/positions"
    shares = np.exp(logits[:3]) / np.exp(logits[:3]).sum()
    got = _encoded(encoder, weights, LENGTHS, VALUES)
    np.testing.assert_allclose(got, [shares @ VALUES[:3], np.zeros(DIM), VALUES[3]], rtol=1e-5)


def _din(weights: dict[str, Any], x: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Equation 3 of the paper, one list and one target."""
    found = np.zeros(DIM, np.float32)
    for one in x:
        joined = np.concatenate([one, one * target, target])
        hidden = np.maximum(joined @ weights["encoders/f/first/w"] + weights["encoders/f/first/b"], 0)
        hidden = np.maximum(hidden @ weights["encoders/f/rest/0/w"] + weights["encoders/f/rest/0/b"], 0)
        found += (hidden @ weights["encoders/f/head/w"] + weights["encoders/f/head/b"]) * one
    return found


@pytest.mark.parametrize("has_own", [False, True])
def test_din_weighs_each_value_by_what_an_mlp_makes_of_it_and_the_target(has_own: bool) -> None:
    encoder, weights = _built(DinEncoder(kind="din", target="item", units=(6, 3)))
    targets = np.random.default_rng(2).normal(size=(3, DIM)).astype(np.float32)
    got = _encoded(encoder, weights, LENGTHS, VALUES, targets, has_own_targets=has_own)
    expected = [_din(weights, x, target) for x, target in zip((VALUES[:3], [], VALUES[3:]), targets, strict=True)]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("floats", [1 << 19, 1])
def test_din_takes_one_list_for_many_targets_and_one_target_for_many_lists(
    floats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All targets of a list at a time, and each alone."""
    from sangam.trainer_module.encoders import din

    monkeypatch.setattr(din, "_FLOATS", floats)
    encoder, weights = _built(DinEncoder(kind="din", target="item"))
    targets = np.random.default_rng(2).normal(size=(5, DIM)).astype(np.float32)
    once = _encoded(encoder, weights, [4], VALUES, targets)
    repeated = _encoded(encoder, weights, [4] * 5, np.tile(VALUES, (5, 1)), targets)
    np.testing.assert_allclose(once, repeated, rtol=1e-5, atol=1e-6)
    once = _encoded(encoder, weights, LENGTHS, VALUES, targets[:1])
    np.testing.assert_allclose(once, _encoded(encoder, weights, LENGTHS, VALUES, targets[[0, 0, 0]]), rtol=1e-5)
    assert _encoded(encoder, weights, [4], VALUES, targets[:0]).shape == (0, DIM)
    list_C, lists = np.array([0, 0, 1, 2, 2], np.int32), (VALUES[:3], VALUES[:0], VALUES[3:])
    several = _encoded(encoder, weights, LENGTHS, VALUES, targets, list_C=tf.constant(list_C))
    each = [_encoded(encoder, weights, [len(lists[of])], lists[of], targets[[n]])[0] for n, of in enumerate(list_C)]
    np.testing.assert_allclose(several, each, rtol=1e-5, atol=1e-6)


def _transformed(weights: dict[str, Any], x: np.ndarray, heads: int, layers: int) -> np.ndarray:
    """Section 3 of the paper with norms as in figure 1 (b) of Xiong et al., one list without padding; then the mean."""

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = x @ weights[f"encoders/f/{name}/w"] + weights[f"encoders/f/{name}/b"]
        return found

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.02)
        found: np.ndarray = normal * (1 + weights[f"encoders/f/{name}/gain"]) + weights[f"encoders/f/{name}/bias"]
        return found

    x, width = x + weights["encoders/f/positions"][: len(x)], DIM // heads
    for layer in range(layers):
        normal, mixed = norm(f"{layer}/norm_1", x), []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            q, k, v = (dense(f"{layer}/{name}", normal)[:, part] for name in ("queries", "keys", "values"))
            scores = np.exp(q @ k.T / math.sqrt(width))
            mixed.append(scores / scores.sum(-1, keepdims=True) @ v)
        x = x + dense(f"{layer}/mixed", np.concatenate(mixed, 1))
        normal = norm(f"{layer}/norm_2", x)
        x = x + dense(f"{layer}/narrow", np.maximum(dense(f"{layer}/wide", normal), 0))
    found: np.ndarray = x.mean(0)
    return found


def test_a_transformer_equals_the_paper_over_the_values_that_are_there() -> None:
    encoder, weights = _built(TransformerEncoder(kind="transformer", num_layers=2, num_heads=2, feed_forward_units=3))
    got = _encoded(encoder, weights, LENGTHS, VALUES)
    expected = [_transformed(weights, VALUES[:3], 2, 2), np.zeros(DIM), _transformed(weights, VALUES[3:], 2, 2)]
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("lengths", [LENGTHS, (0, 0), ()])
@pytest.mark.parametrize(
    "declared",
    [
        DinEncoder(kind="din", target="item"),
        TransformerEncoder(kind="transformer"),
        HstuEncoder(kind="hstu", target="item", num_layers=2),
        TargetTransformerEncoder(kind="target_transformer", target="item", num_layers=2),
    ],
)
def test_empty_lists_have_gradients_that_are_numbers(declared: Any, lengths: tuple[int, ...]) -> None:
    from sangam.trainer_module.encoders.lists import Lists

    encoder, weights = _built(declared)
    variables = {name: tf.constant(weight) for name, weight in weights.items()}
    values, target = tf.constant(VALUES[: sum(lengths)]), tf.ones([len(lengths), DIM])
    with tf.GradientTape() as tape:
        tape.watch([values, target, variables])
        encoded = encoder(variables, Lists(values, tf.constant(lengths, tf.int64), has_own_targets=True), target)
        total = tf.reduce_sum(tf.square(encoded))
    for gradient in tf.nest.flatten(tape.gradient(total, [values, variables])):
        assert np.isfinite(tf.convert_to_tensor(gradient).numpy()).all()

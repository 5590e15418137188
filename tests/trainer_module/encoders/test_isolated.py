"""HSTU and the transformer with a target, against NumPy; nothing depends on which other candidates there are."""

import itertools
from typing import Any

import numpy as np
import pytest

from sangam.schemas.derived.weights import encoder_weights
from sangam.schemas.spec.buckets import NUM_BUCKETS, bucket, bucket_starts
from sangam.schemas.spec.encoders import HstuEncoder, TargetTransformerEncoder
from sangam.schemas.spec.events import EventTimes
from sangam.schemas.spec.features import SequenceFeature

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

DIM, HEADS, WIDTH = 4, 2, 2
EPSILON = 0.02
LENGTHS = (3, 0, 1, 5)
RANDOM = np.random.default_rng(0)
VALUES = RANDOM.normal(size=(sum(LENGTHS), DIM)).astype(np.float32)
AGES = np.concatenate([np.sort(RANDOM.integers(0, 100_000, length)) for length in LENGTHS]).astype(np.float32)
TARGETS = RANDOM.normal(size=(4, DIM)).astype(np.float32)
ENCODERS = [
    HstuEncoder(kind="hstu", target="item", num_layers=2),
    TargetTransformerEncoder(kind="target_transformer", target="item", num_layers=2, feed_forward_units=3),
]
both = pytest.mark.parametrize("declared", ENCODERS, ids=lambda declared: declared.kind)


def built(declared: Any, *, has_ages: bool = True) -> tuple[Any, dict[str, Any]]:
    from sangam.trainer_module.encoders import build_encoder

    times = EventTimes(column="times", at="time") if has_ages else None
    feature = SequenceFeature(kind="sequence", type="int", table="t", max_length=9, encoder=declared, times=times)
    generator = np.random.default_rng(1)
    weights = encoder_weights("f", feature, DIM)
    made = {weight.name: generator.normal(size=weight.shape, scale=0.7).astype(np.float32) for weight in weights}
    return build_encoder("f", feature, DIM), made


def lists_of(lengths: Any, values: Any, ages: Any = None, **more: Any) -> Any:
    from sangam.trainer_module.encoders.lists import Lists

    ages_n = None if ages is None else tf.constant(ages, tf.float32)
    return Lists(tf.convert_to_tensor(values), tf.constant(lengths, tf.int64), ages_n=ages_n, **more)


def _dense(weights: dict[str, Any], name: str, x: np.ndarray) -> np.ndarray:
    found: np.ndarray = x @ weights[f"encoders/f/{name}/w"] + weights[f"encoders/f/{name}/b"]
    return found


def _normal(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return found


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _attended(weights: dict[str, Any], layer: int, q: Any, k: Any, v: Any, ages: Any, weigh: Any) -> np.ndarray:
    """Returns the sums of a list from its target, the first row, to its oldest value: each sees what is not newer."""
    positions, of_ages = (weights.get(f"encoders/f/{layer}/{name}") for name in ("positions", "ages"))
    sums = np.zeros_like(q)
    for head, row in itertools.product(range(HEADS), range(len(q))):
        part = slice(head * WIDTH, (head + 1) * WIDTH)
        logits = []
        for seen in range(row, len(q)):
            bias = positions[head, bucket(seen - row)]
            if ages is not None:
                bias += of_ages[head, np.digitize(ages[seen] - ages[row], bucket_starts())]
            logits.append(q[row, part] @ k[seen, part] + bias)
        sums[row, part] = weigh(np.array(logits), len(q)) @ v[row:, part]
    return sums


def _hstu(weights: dict[str, Any], layer: int, x: np.ndarray, ages: Any) -> np.ndarray:
    """Equations 1 to 3 of the paper, with 1 + U for U."""
    k, v = np.split(_silu(_dense(weights, f"{layer}/keys_values", _normal(x))), 2, axis=1)
    q, u = np.split(_silu(_dense(weights, f"{layer}/queries_gates", _normal(x))), 2, axis=1)
    sums = _attended(weights, layer, q, k, v, ages, lambda logits, count: _silu(logits) / count)
    return x + _dense(weights, f"{layer}/mixed", _normal(sums) * (1 + u))


def _transformer(weights: dict[str, Any], layer: int, x: np.ndarray, ages: Any) -> np.ndarray:
    """Section 3.1 of Vaswani et al., with norms as in figure 1 (b) of Xiong et al."""

    def norm(number: int, x: np.ndarray) -> np.ndarray:
        gain, bias = (weights[f"encoders/f/{layer}/norm_{number}/{part}"] for part in ("gain", "bias"))
        found: np.ndarray = _normal(x) * (1 + gain) + bias
        return found

    normal = norm(1, x)
    k, v = np.split(_dense(weights, f"{layer}/keys_values", normal), 2, axis=1)
    q = _dense(weights, f"{layer}/queries", normal) / np.sqrt(WIDTH)
    x = x + _dense(
        weights,
        f"{layer}/mixed",
        _attended(weights, layer, q, k, v, ages, lambda logits, _: np.exp(logits) / np.exp(logits).sum()),
    )
    return x + _dense(weights, f"{layer}/narrow", np.maximum(_dense(weights, f"{layer}/wide", norm(2, x)), 0))


def expected_of(declared: Any, weights: dict[str, Any], target: Any, values: Any, ages: Any) -> np.ndarray:
    """Returns the state of a target in front of its list, computed as one sequence, all layers whole."""
    if not len(values):
        return np.zeros(DIM)
    x, ages = np.concatenate([target[None], values]), None if ages is None else np.concatenate([[0], ages])
    for layer in range(declared.num_layers):
        x = (_hstu if declared.kind == "hstu" else _transformer)(weights, layer, x, ages)
    found: np.ndarray = x[0]
    return found


@both
@pytest.mark.parametrize("has_ages", [True, False])
@pytest.mark.parametrize("floats", [1 << 22, 1])
def test_the_state_of_the_target_is_that_of_the_papers(
    declared: Any, has_ages: bool, floats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lists at a time, and each alone."""
    from sangam.trainer_module.encoders import in_parts

    monkeypatch.setattr(in_parts, "_ELEMENTS", floats)
    encoder, weights = built(declared, has_ages=has_ages)
    lists = lists_of(LENGTHS, VALUES, AGES if has_ages else None, has_own_targets=True)
    got = encoder(weights, lists, tf.constant(TARGETS)).numpy()
    ends = np.cumsum(LENGTHS)[:-1]
    of_lists = zip(TARGETS, np.split(VALUES, ends), np.split(AGES, ends), strict=True)
    expected = [expected_of(declared, weights, t, x, ages if has_ages else None) for t, x, ages in of_lists]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@both
def test_a_list_is_computed_once_for_its_candidates_and_they_do_not_see_each_other(declared: Any) -> None:
    encoder, weights = built(declared)
    list_C = np.array([0, 0, 0, 2, 3, 3])
    targets = np.random.default_rng(2).normal(size=(6, DIM)).astype(np.float32)
    once = encoder(weights, lists_of(LENGTHS, VALUES, AGES, list_C=tf.constant(list_C, tf.int32)), tf.constant(targets))
    ends = np.cumsum(LENGTHS)[:-1]
    values, ages = np.split(VALUES, ends), np.split(AGES, ends)
    for number, of_list in enumerate(list_C):
        lists = lists_of([LENGTHS[of_list]], values[of_list], ages[of_list])
        alone = encoder(weights, lists, tf.constant(targets[number : number + 1])).numpy()
        np.testing.assert_allclose(once.numpy()[number : number + 1], alone, rtol=1e-5, atol=1e-6)


@both
def test_the_vector_begins_as_the_row_of_the_target(declared: Any) -> None:
    from sangam.trainer_module.dense.initial import initial

    encoder, _ = built(declared, has_ages=False)
    feature = SequenceFeature(kind="sequence", type="int", table="t", max_length=9, encoder=declared)
    weights = {weight.name: initial(weight, seed=1) for weight in encoder_weights("f", feature, DIM)}
    got = encoder(weights, lists_of(LENGTHS, VALUES, has_own_targets=True), tf.constant(TARGETS)).numpy()
    np.testing.assert_array_equal(got, TARGETS * (np.array(LENGTHS) > 0)[:, None])


@both
def test_one_list_may_have_many_targets_and_one_target_many_lists(declared: Any) -> None:
    encoder, weights = built(declared)
    targets = tf.constant(TARGETS)
    once = encoder(weights, lists_of([5], VALUES[:5], AGES[:5]), targets)
    repeated = encoder(weights, lists_of([5] * 4, np.tile(VALUES[:5], (4, 1)), np.tile(AGES[:5], 4)), targets)
    np.testing.assert_allclose(once, repeated, rtol=1e-5, atol=1e-6)
    once = encoder(weights, lists_of(LENGTHS, VALUES, AGES), targets[:1])
    repeated = encoder(weights, lists_of(LENGTHS, VALUES, AGES), tf.gather(targets, [0, 0, 0, 0]))
    np.testing.assert_allclose(once, repeated, rtol=1e-5, atol=1e-6)
    assert encoder(weights, lists_of([5], VALUES[:5], AGES[:5]), targets[:0]).shape == (0, DIM)
    assert encoder(weights, lists_of([], VALUES[:0], AGES[:0], has_own_targets=True), targets[:0]).shape == (0, DIM)


@both
def test_gradients_are_the_slopes_of_the_losses_however_many_lists_are_computed_at_a_time(
    declared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.encoders import in_parts

    encoder, weights = built(declared)
    of_result = np.random.default_rng(3).normal(size=(4, DIM)).astype(np.float32)

    def loss(weights: Any, values: Any, targets: Any) -> Any:
        found = encoder(weights, lists_of(LENGTHS, values, AGES, has_own_targets=True), targets)
        return tf.reduce_sum(found * of_result)

    read = [{name: tf.constant(each) for name, each in weights.items()}, tf.constant(VALUES), tf.constant(TARGETS)]

    def gradients(*read: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(read)
            found = loss(*read)
        return [tf.convert_to_tensor(each) for each in tf.nest.flatten(tape.gradient(found, read))]

    together = [each.numpy() for each in gradients(*read)]
    monkeypatch.setattr(in_parts, "_ELEMENTS", 1)
    alone = [each.numpy() for each in tf.function(gradients, autograph=False)(*read)]
    generator = np.random.default_rng(4)
    directions = [generator.normal(size=each.shape).astype(np.float32) for each in together]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        assert np.abs(one).max() > 0

    def moved(step: float) -> float:
        flat = [each + step * d for each, d in zip(tf.nest.flatten(read), directions, strict=True)]
        return float(loss(*tf.nest.pack_sequence_as(read, flat)))

    step = 1e-3
    slope = sum(float((each * d).sum()) for each, d in zip(together, directions, strict=True))
    assert (moved(step) - moved(-step)) / (2 * step) == pytest.approx(slope, rel=1e-2)


def test_buckets_of_tensors_are_those_of_numbers() -> None:
    from sangam.trainer_module.encoders.relative import distance_buckets, number_buckets

    whole = [*range(40), 4095, 4096, 2**20 - 2, 2**20 - 1]
    distances = tf.constant(whole, tf.float32)
    assert distance_buckets(distances, 1000).numpy().tolist() == [bucket(distance) for distance in whole]
    numbers = [*whole, -5.0, 0.41, 0.42, 1.82, 1.83, 3e9, 1e30]
    expected = np.digitize(numbers, bucket_starts()).tolist()
    assert number_buckets(tf.constant(numbers, tf.float32)).numpy().tolist() == expected
    assert expected[-1] == NUM_BUCKETS - 1

"""float16 on the wire: bounded errors, no overflow of gradients, counted ones of embeddings."""

import numpy as np
import pytest
import tensorflow as tf

from sangam.trainer_module.loop.served_step import half_of
from tests.trainer_module.parameter_server.sample_shards import ASYNC, Calls, keys_of, spec_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("exponent", [-110, -86, -60, -20, -1, 0, 1, 20, 60, 110, 126])
def test_each_gradient_has_its_declared_error_and_none_overflows(exponent: int) -> None:
    generator = np.random.default_rng(0)
    spread = generator.integers(-45, 1, [200, 8])
    with np.errstate(under="ignore"):
        gradient = (generator.uniform(-1, 1, [200, 8]) * 2.0 ** (spread + exponent)).astype(np.float32)
    # TensorFlow may take denormal numbers for zeros.
    gradient[np.abs(gradient) < np.finfo(np.float32).tiny] = 0.0
    half, scale = half_of(tf.constant(gradient))
    assert half.dtype == tf.float16
    assert np.isfinite(half.numpy()).all()
    back = half.numpy().astype(np.float64) * float(scale)
    largest = np.abs(gradient).max().astype(np.float64)
    allowed = np.maximum(np.abs(gradient.astype(np.float64)) * 2.0**-11, largest * 2.0**-39)
    assert (np.abs(back - gradient) <= allowed).all()


def test_scaling_is_by_powers_of_two_and_changes_no_small_number() -> None:
    for largest in (1.0, 3.0, 65504.0, 1e-20, 3.4e38):
        _, scale = half_of(tf.constant([[largest, 0.0]]))
        assert np.frexp(float(scale))[0] == 0.5
    half, scale = half_of(tf.constant([[0.5, -3.0, 1.25]]))
    np.testing.assert_array_equal(half.numpy().astype(np.float32) * scale.numpy(), [[0.5, -3.0, 1.25]])


@pytest.mark.parametrize("shape", [[0, 4], [3, 4]])
def test_no_gradients_and_zeros_stay_what_they_are(shape: list[int]) -> None:
    half, scale = half_of(tf.zeros(shape))
    np.testing.assert_array_equal(half.numpy(), np.zeros(shape))
    assert np.isfinite(float(scale))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so(value: float) -> None:
    half, scale = half_of(tf.constant([[1.0, value], [0.25, 2.0]], tf.float32))
    back = half.numpy().astype(np.float32) * scale.numpy()
    assert np.isfinite(back).tolist() == [[True, False], [True, True]]
    np.testing.assert_array_equal(back[[0, 1, 1], [0, 0, 1]], [1.0, 0.25, 2.0])


def test_embeddings_beyond_float16_are_sent_as_its_largest_and_counted() -> None:
    spec = spec_of({**ASYNC, "wire": "float16"})
    calls = Calls(spec)
    ids = keys_of(spec, "users", 1, 2)
    assert calls.pull(0, 0, ids).dtype == np.float16
    store = calls.stores[calls.group]
    rows = store.rows.numpy()[1:3]
    rows[0, :3] = [65504.0, 65520.0, -1e9]
    rows[1, :2] = [65519.0, 2.0**-24]
    store.rows.scatter_update(tf.IndexedSlices(rows, [1, 2]))
    sent = calls.embeddings(ids)
    assert sent[0, :3].tolist() == [65504.0, 65504.0, -65504.0]
    assert sent[1, :2].tolist() == [65504.0, 2.0**-24]
    assert int(calls.shard.rows.overflows) == 3
    within = np.abs(sent[:, 3:].astype(np.float32) - rows[:, 3 : calls.dim])
    assert (within <= np.abs(rows[:, 3 : calls.dim]) * 2.0**-11 + 2.0**-25).all()
    # The rows themselves are float32.
    np.testing.assert_array_equal(store.rows.numpy()[1:3], rows)

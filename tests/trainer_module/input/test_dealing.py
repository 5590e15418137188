"""Examples dealt by their number of ids: parts of equal length and about equal work, each example once."""

from typing import Any

import numpy as np
import pytest

from tests.trainer_module.sample_job import declared

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


def test_parts_of_equal_length_get_sums_that_differ_by_less_than_the_largest_size() -> None:
    from sangam.trainer_module.input.dealing import dealt

    assert dealt(tf.constant([[1, 9, 5, 3, 7, 2]]), 2).numpy().tolist() == [[1, 3, 5, 4, 2, 0]]
    generator = np.random.default_rng(3)
    sizes = np.ceil(generator.lognormal(2.0, 1.2, (4, 96))).astype(np.int64)
    for parts in (1, 2, 3, 8, 96):
        order = dealt(tf.constant(sizes), parts).numpy()
        assert np.array_equal(np.sort(order, 1), np.tile(np.arange(96), (4, 1)))
        sums = np.take_along_axis(sizes, order, 1).reshape(4, parts, -1).sum(2)
        assert ((sums.max(1) - sums.min(1)) < sizes.max(1)).all()
    assert dealt(tf.zeros([1, 0], tf.int64), 0).shape == (1, 0)


def test_ids_are_counted_up_to_those_that_a_feature_keeps() -> None:
    from sangam.trainer_module.input.blocks import Table
    from sangam.trainer_module.input.dealing import ids_counter, lists_of

    spec = declared()
    assert lists_of(spec, is_raw=False) == {"history": ("history", 5), "tags": ("tags", 64)}
    table = Table({"history": tf.int64, "tags": tf.int64, "user": tf.int64})
    lengths: Any = tf.constant([[7, 0, 5], [1, 2, 70], [1, 1, 1]], tf.int64)
    count = ids_counter(table, lists_of(spec, is_raw=False))
    assert count is not None
    assert count({"int64_0000": (tf.zeros([0], tf.int64), lengths)}).numpy().tolist() == [6, 2, 69]
    assert ids_counter(table, {}) is None

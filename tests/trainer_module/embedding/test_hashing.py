"""Hashes of keys, and where rows start, against NumPy."""

import numpy as np
import pytest

from sangam.schemas.host import splitmix64

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


KEYS = np.array([0, 1, -1, 2**63 - 1, -(2**63), 123456789], np.int64)


def test_mix64_equals_splitmix64() -> None:
    from sangam.trainer_module.embedding.hashing import mix64

    numbers = KEYS.view(np.uint64)
    np.testing.assert_array_equal(mix64(tf.constant(numbers)).numpy(), splitmix64.mix64(numbers))


@pytest.mark.parametrize("ranks", [1, 3, 64, 1000])
def test_owners_are_spread_evenly_whatever_the_tag_and_checkpoints_know_the_same_ones(ranks: int) -> None:
    from sangam.trainer_module.checkpoint.blocks import is_owned
    from sangam.trainer_module.embedding.hashing import owner_of

    ids = np.concatenate([np.arange(60_000), KEYS & (2**52 - 1)])
    owners = owner_of(tf.constant((5 << 52) | ids), ranks).numpy()
    hashes = [int(hashed) >> 32 for hashed in splitmix64.mix64(ids.view(np.uint64))]
    assert owners.tolist() == [hashed * ranks // 2**32 for hashed in hashes]
    np.testing.assert_array_equal(owners, owner_of(tf.constant((2047 << 52) | ids), ranks).numpy())
    shares = np.bincount(owners, minlength=ranks)
    assert abs(shares - len(ids) / ranks).max() < 6 * (len(ids) / ranks) ** 0.5
    for rank in {0, ranks // 2, ranks - 1}:
        np.testing.assert_array_equal(is_owned((5 << 52) | ids, rank, ranks), owners == rank)


def test_initial_rows_depend_on_seed_and_key_alone() -> None:
    from sangam.trainer_module.embedding.hashing import initial_rows

    rows = initial_rows(tf.constant(KEYS), 16, 0.05, seed=1).numpy()
    backwards = initial_rows(tf.constant(KEYS[::-1].copy()), 16, 0.05, seed=1).numpy()
    np.testing.assert_array_equal(rows, backwards[::-1])
    assert not np.array_equal(rows, initial_rows(tf.constant(KEYS), 16, 0.05, seed=2).numpy())
    many = initial_rows(tf.range(20_000, dtype=tf.int64), 8, 0.05, seed=1).numpy()
    assert len(np.unique(many[:, 0])) > 19_900
    assert -0.05 <= many.min() < -0.0499 < 0.0499 < many.max() < 0.05
    np.testing.assert_allclose(many.std(), 0.1 / np.sqrt(12), rtol=0.01)
    assert abs(np.corrcoef(many[:, 0], many[:, 1])[0, 1]) < 0.03


def test_draws_are_even_and_differ_by_stream() -> None:
    from sangam.trainer_module.embedding.hashing import uniform

    keys = tf.range(20_000, dtype=tf.int64)
    first, second = (uniform(keys, tf.constant(stream, tf.uint64)).numpy() for stream in (1, 2))
    np.testing.assert_allclose([first.mean(), second.mean()], 0.5, atol=0.01)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


def test_keys_of_two_tables_are_never_equal_and_do_not_depend_on_the_batch() -> None:
    from sangam.trainer_module.transforms.keys import id_keys, tags_of

    text = id_keys(1, tf.constant(["a", "b", "", "ü"])).numpy()
    assert len(set(text)) == 4
    assert tags_of(tf.constant(text)).numpy().tolist() == [1] * 4
    assert tags_of(id_keys(2047, tf.constant(["a", "b", "", "ü"]))).numpy().tolist() == [2047] * 4
    assert tags_of(tf.constant([0], tf.int64)).numpy().tolist() == [0]
    np.testing.assert_array_equal(id_keys(1, tf.constant(["b"])).numpy(), text[1:2])
    numbers = id_keys(1, tf.constant([0, -5, 2**62], tf.int64)).numpy()
    np.testing.assert_array_equal(numbers, id_keys(1, tf.constant(["0", "-5", str(2**62)])).numpy())
    assert id_keys(1, tf.zeros([0], tf.string)).shape == (0,)

"""The embedding engine's parts against NumPy."""

import numpy as np
import pytest

from schemas.optimizers import Adagrad, Adam, Sgd

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


def _mix64(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


KEYS = np.array([0, 1, -1, 2**63 - 1, -(2**63), 123456789], np.int64)


def test_mix64_equals_splitmix64() -> None:
    from trainer_module.embedding.hashing import mix64

    np.testing.assert_array_equal(mix64(tf.constant(KEYS.view(np.uint64))).numpy(), _mix64(KEYS.view(np.uint64)))


def test_owners_are_spread_evenly_and_equal_the_oracle() -> None:
    from trainer_module.embedding.hashing import owner_of

    keys = np.arange(-30_000, 30_000, dtype=np.int64)
    owners = owner_of(tf.constant(keys), 3).numpy()
    np.testing.assert_array_equal(owners, (_mix64(keys.view(np.uint64)) >> np.uint64(1)) % np.uint64(3))
    assert np.bincount(owners).min() > 19_500


def test_initial_rows_depend_on_seed_and_key_alone() -> None:
    from trainer_module.embedding.hashing import initial_rows

    rows = initial_rows(tf.constant(KEYS), 16, 0.05, seed=1).numpy()
    backwards = initial_rows(tf.constant(KEYS[::-1].copy()), 16, 0.05, seed=1).numpy()
    np.testing.assert_array_equal(rows, backwards[::-1])
    assert not np.array_equal(rows, initial_rows(tf.constant(KEYS), 16, 0.05, seed=2).numpy())
    many = initial_rows(tf.range(20_000, dtype=tf.int64), 8, 0.05, seed=1).numpy()
    assert len(np.unique(many[:, 0])) > 19_900
    assert -0.05 <= many.min() < -0.0499 < 0.0499 < many.max() < 0.05
    np.testing.assert_allclose(many.std(), 0.1 / np.sqrt(12), rtol=0.01)
    assert abs(np.corrcoef(many[:, 0], many[:, 1])[0, 1]) < 0.03


def _adam(d: Adam, w: np.ndarray, m: np.ndarray, v: np.ndarray, g: np.ndarray, t: int) -> tuple[np.ndarray, ...]:
    m, v = d.beta1 * m + (1 - d.beta1) * g, d.beta2 * v + (1 - d.beta2) * g**2
    rate = d.learning_rate * np.sqrt(1 - d.beta2**t) / (1 - d.beta1**t)
    return w - rate * m / (np.sqrt(v) + d.epsilon), m, v


@pytest.mark.parametrize(
    "declared",
    [
        Sgd(kind="sgd", learning_rate=0.1),
        Adagrad(kind="adagrad", learning_rate=0.1, initial_accumulator=0.2),
        Adam(kind="adam", learning_rate=0.01),
    ],
)
def test_row_optimizers_equal_numpy(declared: Sgd | Adagrad | Adam) -> None:
    from trainer_module.embedding.row_optimizers import row_update

    generator = np.random.default_rng(0)
    update = row_update(declared)
    w = generator.normal(size=(5, 4))
    slots = [np.full((5, 4), update.slot_start) for _ in range(update.num_slots)]
    rows = tf.constant(np.concatenate([w, *slots], 1), tf.float32)
    for step in range(1, 6):
        g = generator.normal(size=(5, 4))
        rows = update(rows, tf.constant(g, tf.float32), tf.constant(step, tf.int64))
        match declared:
            case Sgd():
                w = w - 0.1 * g
            case Adagrad():
                slots[0] = slots[0] + g**2
                w = w - 0.1 * g / np.sqrt(slots[0])
            case Adam():
                w, *slots = _adam(declared, w, slots[0], slots[1], g, step)
    np.testing.assert_allclose(rows.numpy(), np.concatenate([w, *slots], 1), atol=1e-6)


def test_a_store_grows_keeps_its_rows_and_never_inserts_on_reading() -> None:
    from trainer_module.embedding.hashing import initial_rows
    from trainer_module.embedding.row_optimizers import row_update
    from trainer_module.embedding.row_store import INITIAL_SCALE, RowStore

    declared = Adagrad(kind="adagrad", learning_rate=0.1, initial_accumulator=0.5)
    store = RowStore(dim=3, update=row_update(declared), seed=7, name="grows")
    make = tf.function(store.find_or_make, input_signature=[tf.TensorSpec([None], tf.int64)])
    first = make(tf.range(10, dtype=tf.int64))
    many = make(tf.range(5, 70_000, dtype=tf.int64))
    np.testing.assert_array_equal(many.numpy()[:5], first.numpy()[5:])
    assert len(np.unique(many.numpy())) == len(many)
    assert make(tf.zeros([0], tf.int64)).shape == (0,)

    read = store.embeddings_or_zeros(tf.constant([-4, 3, 69_999], tf.int64)).numpy()
    expected = initial_rows(tf.constant([3, 69_999], tf.int64), 3, INITIAL_SCALE, 7).numpy()
    np.testing.assert_array_equal(read, np.concatenate([np.zeros((1, 3), np.float32), expected]))
    keys, rows = store.contents()
    np.testing.assert_array_equal(keys, np.arange(70_000))
    np.testing.assert_array_equal(rows[:, 3:], np.full((70_000, 3), 0.5))


def test_keys_of_equal_ids_differ_by_table_and_do_not_depend_on_the_batch() -> None:
    from trainer_module.keys import id_keys

    text = id_keys("users", tf.constant(["a", "b", "", "ü"])).numpy()
    assert len(set(text)) == 4
    assert set(text).isdisjoint(id_keys("posts", tf.constant(["a", "b", "", "ü"])).numpy())
    np.testing.assert_array_equal(id_keys("users", tf.constant(["b"])).numpy(), text[1:2])
    numbers = id_keys("users", tf.constant([0, -5, 2**62], tf.int64)).numpy()
    np.testing.assert_array_equal(numbers, id_keys("users", tf.constant(["0", "-5", str(2**62)])).numpy())
    assert id_keys("users", tf.zeros([0], tf.string)).shape == (0,)

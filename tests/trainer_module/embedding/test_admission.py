"""Which ids get a row, and when."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize("at_least", [2, 3, 5])
def test_the_kth_occurrence_admits_and_none_before(at_least: int) -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    admission = {"kind": "count", "at_least": at_least, "counters": 1024}
    store = RowStore(group(users=table(admission=admission, default_value=0.5)), seed=1)
    step = Steps(store)
    for _ in range(at_least - 1):
        np.testing.assert_array_equal(step(keys(1)), np.full((1, 4), 0.5))
        assert ids_of(store) == set()
    assert not np.any(step(keys(1)) == 0.5)
    assert ids_of(store) == {1}


def test_occurrences_count_not_steps() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    admission = {"kind": "count", "at_least": 3, "counters": 1024}
    store = RowStore(group(users=table(admission=admission)), seed=1)
    step = Steps(store)
    step(keys(1, 2, 3), occurrences=np.array([3, 2, 1], np.int32))
    assert ids_of(store) == {1}
    step(keys(2, 3))
    assert ids_of(store) == {1, 2}
    assert store.counters["admitted"].numpy().tolist() == [0, 2]
    assert store.counters["rejected"].numpy().tolist() == [0, 3]


def test_tables_of_a_group_admit_each_by_its_own_rule() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    twice, thrice = ({"kind": "count", "at_least": count, "counters": 1024} for count in (2, 3))
    store = RowStore(group(users=table(admission=twice), posts=table(admission=thrice), tags=table()), seed=1)
    step = Steps(store)
    asked = np.concatenate([keys(1, tag=tag) for tag in (1, 2, 3)])
    admitted = []
    for _ in range(3):
        step(asked)
        admitted.append((store.find(tf.constant(asked)).numpy() > 0).tolist())
    assert admitted == [[False, False, True], [True, False, True], [True, True, True]]


def test_a_sketch_never_tells_less_than_the_truth_and_seldom_more() -> None:
    from sangam.trainer_module.embedding.admission import Sketch

    sketch, generator = Sketch(4096, "truth"), np.random.default_rng(0)
    truth = np.zeros(3000, np.int64)
    for _ in range(20):
        batch = generator.choice(3000, 500, replace=False)
        occurrences = generator.integers(1, 4, 500)
        truth[batch] += occurrences
        counts = sketch.add(tf.constant(batch, tf.int64), tf.constant(occurrences, tf.int32)).numpy()
        assert np.all(counts >= truth[batch])
    assert np.mean(counts > truth[batch]) < 0.15


def test_a_sketch_forgets_half_when_it_has_counted_eight_times_its_cells() -> None:
    from sangam.trainer_module.embedding.admission import Sketch

    sketch = Sketch(1024, "ages")
    one = tf.constant([1], tf.int64)
    sketch.add(one, tf.constant([8 * 1024 - 1], tf.int32))
    sketch.age()
    assert sketch.add(one, tf.constant([1], tf.int32)).numpy() == [8 * 1024]
    sketch.age()
    assert sketch.add(one, tf.constant([1], tf.int32)).numpy() == [4 * 1024 + 1]


def test_a_draw_admits_the_declared_share_and_depends_on_seed_step_and_id_alone() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    declared = group(users=table(admission={"kind": "random", "probability": 0.2}))
    first, second, other_seed = (RowStore(declared, seed=seed) for seed in (1, 1, 2))
    asked = keys(*range(20_000))
    Steps(first)(asked)
    Steps(second)(asked[::-1].copy())
    Steps(other_seed)(asked)
    assert ids_of(first) == ids_of(second) != ids_of(other_seed)
    assert abs(first.num_rows / 20_000 - 0.2) < 0.01
    often = RowStore(declared, seed=1)
    Steps(often)(asked, occurrences=3)
    assert abs(often.num_rows / 20_000 - (1 - 0.8**3)) < 0.012
    step = Steps(first)
    step.step = 1
    step(asked)
    assert abs(first.num_rows / 20_000 - (1 - 0.8**2)) < 0.012

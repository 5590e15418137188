"""Every architecture against the papers' equations in NumPy, and what all of them must do."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from pydantic import TypeAdapter

from sangam.schemas.parts.roles import Architecture
from sangam.schemas.spec.models import Model
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.models.esmm import logit_of_product
from sangam.trainer_module.models.mmoe import keep_top
from tests.registered_kinds import ours
from tests.trainer_module.models import oracles
from tests.trainer_module.models.sample_models import TASKS, Small, small

pytestmark = pytest.mark.slow

CHAIN = ("like", "click", "buy")
MODELS: dict[str, dict[str, Any]] = {
    "single_task": {"tower_units": [6, 3]},
    "shared_bottom": {"bottom_units": [6, 5], "tower_units": [3]},
    "mmoe": {"num_experts": 3, "expert_units": [6, 5], "tower_units": [4, 3]},
    "ple": {"num_levels": 3, "shared_experts": 1, "task_experts": 2, "expert_units": [6, 5], "tower_units": [3]},
    "esmm": {"chain": CHAIN, "tower_units": [6, 3]},
    "aitm": {"chain": CHAIN, "tower_units": [6, 3]},
}
INTERACTIONS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "dcn_v2": {"kind": "dcn_v2", "deep_units": (7,)},
    "low_rank": {"kind": "dcn_v2", "rank": 3},
    "mixed": {"kind": "dcn_v2", "rank": 3, "num_experts": 2},
    "dlrm": {"kind": "dlrm", "bottom_units": (7,)},
}


def declared(kind: str, **changes: Any) -> Any:
    return TypeAdapter(Model).validate_python({"kind": kind, **MODELS[kind], **changes}, strict=False)


def by_oracle(made: Small, oracle: Any, *arguments: Any, **options: Any) -> np.ndarray:
    return np.array([oracle(made.oracle, x, *arguments, **options) for x in made.x.astype(np.float64)])


def assert_close(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)


def test_all_architectures_are_walked() -> None:
    assert set(ours(Architecture)) == set(MODELS)


def test_single_task_equals_numpy() -> None:
    made = small(declared("single_task"))
    assert_close(made.logits(), by_oracle(made, oracles.single_task, TASKS, layers=2))
    assert made.size == 3 * (16 * 6 + 7 * 3 + 4)
    assert made.model.shared == ()


def test_shared_bottom_equals_numpy() -> None:
    made = small(declared("shared_bottom"))
    assert_close(made.logits(), by_oracle(made, oracles.shared_bottom, TASKS, bottom_layers=2, layers=1))
    assert made.size == 16 * 6 + 7 * 5 + 3 * (6 * 3 + 4)
    assert made.model.shared == ("bottom/0/0/w",)


@pytest.mark.parametrize("top_k", [None, 1, 2, 3])
def test_mmoe_equals_numpy(top_k: int | None) -> None:
    made = small(declared("mmoe", top_k=top_k))
    options = {"num_experts": 3, "expert_layers": 2, "layers": 2, "top_k": top_k}
    assert_close(made.logits(), by_oracle(made, oracles.mmoe, TASKS, **options))
    assert made.size == 3 * (16 * 6 + 7 * 5) + 3 * 16 * 3 + 3 * (6 * 4 + 5 * 3 + 4)
    assert made.model.shared == ("experts/0/0/w", "experts/1/0/w", "experts/2/0/w")


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("units", [(5,), (6, 5)])
def test_ple_equals_numpy(levels: int, units: tuple[int, ...]) -> None:
    made = small(declared("ple", num_levels=levels, expert_units=units))
    options = {"levels": levels, "own": 2, "shared": 1, "expert_layers": len(units), "layers": 1}
    assert_close(made.logits(), by_oracle(made, oracles.ple, TASKS, **options))


def test_the_parameters_of_ple_are_counted_by_hand() -> None:
    made = small(declared("ple", num_levels=2, expert_units=(6, 5)))
    experts = 3 * 2 + 1
    # The first level has a gate of three for each task, and one of all seven for the shared experts.
    first = experts * (16 * 6 + 7 * 5) + 16 * (3 * 3 + 7)
    last = experts * (6 * 6 + 7 * 5) + 3 * 6 * 3
    assert made.size == first + last + 3 * (6 * 3 + 4)
    assert made.model.shared == ("levels/1/experts/shared/0/0/w",)


def test_esmm_predicts_products_of_conditional_probabilities() -> None:
    made = small(declared("esmm"))
    expected = by_oracle(made, oracles.esmm, CHAIN, layers=2)
    got = oracles.sigmoid(made.logits())
    assert_close(got, expected[:, [CHAIN.index(task) for task in TASKS]])
    assert made.size == 3 * (16 * 6 + 7 * 3 + 4)


def test_the_logit_of_a_product_is_finite_and_exact_at_the_ends() -> None:
    with tf.GradientTape() as tape:
        a, b = tf.constant([100.0, -200.0, 1.0, 0.0]), tf.constant([100.0, -200.0, 200.0, 0.0])
        tape.watch(a)
        logits = logit_of_product(a, b)
    np.testing.assert_allclose(logits, [100 - np.log(2), -400, 1, -np.log(3)], rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(logits, a), [0.5, 1, 1, 2 / 3], rtol=1e-5)


def test_aitm_equals_numpy() -> None:
    made = small(declared("aitm"))
    expected = by_oracle(made, oracles.aitm, CHAIN, layers=2)
    assert_close(made.logits(), expected[:, [CHAIN.index(task) for task in TASKS]])
    assert made.size == 3 * (16 * 6 + 7 * 3 + 4) + 2 * 4 * 3 + 2 * 3 * 9


def test_aitm_charges_a_later_step_that_is_predicted_likelier() -> None:
    made = small(declared("aitm", calibrator_weight=0.5))
    chance = {"like": [0.5, 0.5], "click": [0.3, 0.7], "buy": [0.4, 0.1]}
    logits = np.log([[chance[task][row] / (1 - chance[task][row]) for task in TASKS] for row in range(2)])
    auxiliary = made.model.auxiliary_B(tf.constant(logits, tf.float32))
    np.testing.assert_allclose(auxiliary, [0.5 * 0.1, 0.5 * 0.2], rtol=1e-5)


def test_gates_beyond_the_largest_k_get_neither_share_nor_gradient() -> None:
    gates = tf.constant([[1.0, 3.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(gates)
        shares = tf.nn.softmax(keep_top(gates, 2))
        total = tf.reduce_sum(shares * [[1.0, 2.0, 4.0, 8.0]])
    e = np.exp(1)
    np.testing.assert_allclose(shares, [[0, e / (1 + e), 1 / (1 + e), 0], [0.5, 0.5, 0, 0]], rtol=1e-6)
    share = e / (1 + e) ** 2
    np.testing.assert_allclose(
        tape.gradient(total, gates), [[0, -2 * share, 2 * share, 0], [-0.25, 0.25, 0, 0]], rtol=1e-5
    )


@pytest.mark.parametrize("ensemble", [None, {"members": 5}])
@pytest.mark.parametrize("interaction", INTERACTIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_every_architecture_learns_with_every_interaction_in_both_precisions(
    kind: str, interaction: str, ensemble: dict[str, int] | None
) -> None:
    made = small(declared(kind, interaction=INTERACTIONS[interaction], dropout=0.5, ensemble=ensemble))
    flat = tf.concat([tf.reshape(weight, [-1]) for weight in made.weights.values()], 0)
    assert flat.shape == [made.size]
    noise = Noise.of_step(seed=1, step=tf.constant(3), rank=0)
    with tf.GradientTape() as tape:
        tape.watch(made.weights)
        logits = made.model(made.weights, tf.constant(made.x), noise)
        loss = tf.reduce_sum(tf.square(logits))
    assert logits.shape == [5, 3]
    gradients = tape.gradient(loss, made.weights)
    assert all(gradient is not None and np.all(np.isfinite(gradient)) for gradient in gradients.values())
    assert set(made.model.shared) <= set(made.weights)
    halves = {name: tf.cast(weight * 0.3, tf.bfloat16) for name, weight in made.weights.items()}
    whole = {name: tf.cast(weight, tf.float32) for name, weight in halves.items()}
    x_half = tf.cast(made.x, tf.bfloat16)
    half = made.model(halves, x_half, noise)
    np.testing.assert_allclose(
        tf.cast(half, tf.float32), made.model(whole, tf.cast(x_half, tf.float32), noise), rtol=0.15, atol=0.1
    )


def test_dropout_is_a_function_of_seed_step_rank_and_layer_and_keeps_the_mean() -> None:
    x = tf.ones([400, 50])

    def dropped(seed: int = 1, step: int = 7, rank: int = 0, name: str = "towers/a/0") -> np.ndarray:
        return Noise.of_step(seed=seed, step=tf.constant(step, tf.int64), rank=rank).dropout(x, 0.2, name).numpy()

    first = dropped()
    assert set(np.unique(first)) == {0.0, np.float32(1.25)}
    assert first.mean() == pytest.approx(1, abs=0.02)
    np.testing.assert_array_equal(first, dropped())
    for changed in ({"seed": 2}, {"step": 8}, {"rank": 1}, {"name": "towers/b/0"}):
        # Two independent draws agree in 0.8^2 + 0.2^2 of the places.
        assert np.mean(first == dropped(**changed)) == pytest.approx(0.68, abs=0.02)
    rates = np.array([0.0] * 25 + [0.5] * 25, np.float32)
    by_column = Noise.of_step(seed=1, step=tf.constant(7), rank=0).dropout(x, rates, "tables").numpy()
    assert (by_column[:, :25] == 1).all()
    assert set(np.unique(by_column[:, 25:])) == {0.0, 2.0}
    assert by_column[:, 25:].mean() == pytest.approx(1, abs=0.02)


def test_there_is_no_dropout_in_prediction() -> None:
    with_rate, without = small(declared("mmoe", dropout=0.5)), small(declared("mmoe"))
    np.testing.assert_array_equal(with_rate.logits(), without.logits())
    assert not np.allclose(with_rate.logits(noise=Noise(tf.constant([1, 2]))), without.logits())


def test_a_task_or_a_feature_that_comes_leaves_the_others_their_places() -> None:
    """Every axis of features, tasks or groups of experts is named, so that a warm start finds the rest."""
    for kind in ("single_task", "shared_bottom", "mmoe", "ple"):
        two, three = (small(declared(kind), tasks=TASKS[:number]).declared for number in (2, 3))
        of_three = {weight.name: weight for weight in three}
        for weight in two:
            other = of_three[weight.name]
            for axis, size in enumerate(weight.shape):
                if size != other.shape[axis]:
                    assert set(weight.blocks[axis]) < set(other.blocks[axis])
            if weight.shape[0] == 15:
                assert [name for name, _ in weight.blocks[0]] == ["age", "hour", "user", "item", "tags"]

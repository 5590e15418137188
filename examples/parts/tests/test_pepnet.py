"""PEPNet against its equations in NumPy."""

import numpy as np
import pytest
from sangam_example_parts import PepNet

from sangam.parts import ModelInputs, tf
from sangam.testing import check_part

pytestmark = pytest.mark.slow
PART = PepNet(kind="pepnet", domain=("price",), prior=("user", "item"), units=(6, 4), gate_units=5)
INPUTS = (("price", 2), ("user", 3), ("item", 3))
TASKS = ("click", "rating")


@pytest.fixture(scope="module")
def weights() -> dict[str, tf.Tensor]:
    generator = np.random.default_rng(0)
    found = PART.weights(INPUTS, TASKS)
    return {each.name: tf.constant(generator.normal(size=each.shape), tf.float32) for each in found}


def test_the_equations(weights: dict[str, tf.Tensor]) -> None:
    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ weights[f"{name}/w"].numpy() + weights[f"{name}/b"].numpy()

    def gate_nu(name: str, x: np.ndarray) -> np.ndarray:
        return 2 / (1 + np.exp(-linear(f"gates/{name}/gate", np.maximum(linear(f"gates/{name}/hidden", x), 0))))

    x_BI = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    domain, prior = x_BI[:, :2], x_BI[:, 2:]
    gated = gate_nu("embeddings", np.concatenate([domain, x_BI], 1)) * x_BI
    side = np.concatenate([prior, gated], 1)
    expected = []
    for number, task in enumerate(TASKS):
        hidden = gated
        for layer, units in enumerate(PART.units):
            own = slice(number * units, (number + 1) * units)
            hidden = gate_nu(f"layer_{layer}", side)[:, own] * np.maximum(linear(f"towers/{task}/{layer}", hidden), 0)
        expected.append(linear(f"heads/{task}", hidden))
    found = PART.logits(weights, tf.constant(x_BI), INPUTS, TASKS, None)
    np.testing.assert_allclose(found, np.concatenate(expected, 1), rtol=1e-4, atol=1e-5)


def test_gates_of_the_towers_teach_the_embeddings_nothing_but_the_prior(weights: dict[str, tf.Tensor]) -> None:
    # Zero towers: what is left of the gradient comes by way of the gates alone, and zero layers stop that as well.
    silent = {name: tf.zeros_like(each) if name.startswith("towers/") else each for name, each in weights.items()}
    ones = {name: tf.ones_like(each) if name.endswith("/b") else each for name, each in silent.items()}
    x_BI = tf.constant(np.random.default_rng(1).normal(size=(4, 8)), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x_BI)
        total = tf.reduce_sum(PART.logits(ones, x_BI, INPUTS, TASKS, None))
    gradient = tape.gradient(total, x_BI).numpy()
    assert not gradient[:, :2].any()
    assert gradient[:, 2:].any()


def test_a_feature_that_does_not_reach_it_is_a_mistake() -> None:
    part = PART.model_copy(update={"prior": ("user", "author")})
    [problem] = part.problems(ModelInputs(embeddings=INPUTS), TASKS)
    assert problem.loc == ("prior", 1)
    assert "author" in problem.what


@pytest.mark.long
def test_it_holds_what_every_part_promises() -> None:
    seen = check_part(PART)
    assert "3 values behind stop_gradient held" in seen["gradient"]

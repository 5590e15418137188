"""What a part of others returns is checked where it enters the model, and told with its file and line."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

from sangam.parts import BinaryLoss, Examples, Tensor  # noqa: E402
from sangam.schemas.errors import UserError  # noqa: E402
from sangam.trainer_module.outside import computed  # noqa: E402
from tests.trainer_module import sample_kinds  # noqa: E402


class Given(BinaryLoss):
    """Computes what a test gives it."""

    kind: Literal["given"]

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        del examples
        return _COMPUTE[-1](logits_B)


_COMPUTE: list[Callable[[Any], Any]] = []


@pytest.fixture(params=[True, False], ids=["graph", "eager"])
def result(request: pytest.FixtureRequest) -> Iterator[Callable[[Callable[[Any], Any]], Any]]:
    """Returns what `computed` makes of a function of [3] logits."""

    def run(compute: Callable[[Any], Any]) -> Any:
        _COMPUTE.append(compute)
        part = Given(kind="given")

        def traced(logits_B: Any) -> Any:
            return computed(part, logits_B, None, shape=[None], dtype=tf.float32)

        logits = tf.constant([1.0, 2.0, 3.0])
        return (tf.function(traced, autograph=False) if request.param else traced)(logits).numpy().tolist()

    yield run
    _COMPUTE.clear()


def test_a_result_of_the_right_shape_and_type_passes(result: Any) -> None:
    assert result(lambda z: z * 2.0) == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("compute", "what"),
    [
        (lambda z: z[:, None], "returned the shape [3, 1]; it returns the shape [any]"),
        (lambda z: tf.cast(z, tf.float64), "returned float64; it returns float32"),
        (lambda z: None, "returned no tensor (got NoneType"),
        (lambda z: z.no_such_method(), "AttributeError"),
    ],
)
def test_another_result_is_told_with_the_class(result: Any, compute: Any, what: str) -> None:
    with pytest.raises(UserError) as caught:
        result(compute)
    assert what in str(caught.value)
    assert "test_outside.py:" in str(caught.value)


@pytest.mark.parametrize(
    ("compute", "operation"),
    [
        (lambda z: tf.py_function(lambda x: x, [z], tf.float32), "EagerPyFunc"),
        (lambda z: tf.numpy_function(lambda x: x, [z], tf.float32), "PyFunc"),
        (lambda z: z + tf.random.uniform([3]), "RandomUniform"),
        (lambda z: tf.map_fn(lambda x: tf.numpy_function(lambda y: y, [x], tf.float32), z), "PyFunc"),
    ],
)
def test_operations_that_a_server_or_another_run_has_not_are_refused(compute: Any, operation: str) -> None:
    _COMPUTE.append(compute)
    part = Given(kind="given")

    @tf.function(autograph=False)
    def traced(logits_B: Any) -> Any:
        return computed(part, logits_B, None, shape=[None], dtype=tf.float32)

    with pytest.raises(UserError, match=f"`losses` of binary_loss 'given' uses the operation {operation}"):
        traced.get_concrete_function(tf.TensorSpec([None], tf.float32))


def test_who_computes_the_layers_of_parts_is_told_with_the_layers_of_the_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sangam.trainer_module import tracing
    from sangam.trainer_module.dense import fused

    monkeypatch.setattr(fused, "threads", lambda: 1)
    monkeypatch.setattr(fused, "has_units_for", lambda dtype: True)  # Nothing is computed.
    assert tracing.layers(sample_kinds.spec(sample_kinds.OUTSIDE).ranker()) == (
        "dense layers: 1 of 4 native (float32 by AVX-512); by TensorFlow: interaction/gate (own code), "
        "model/heads/hit, model/heads/depth (one output)"
    )

"""Which code computes a layer, and why: layers ask here, and the same answers are told to the user."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import tensorflow as tf

from sangam.schemas.errors import UserError
from sangam.schemas.parts.weight import Weight
from sangam.trainer_module.dense import fused

_WIDEST = 2_048
"""Most inputs of a layer: with more, TensorFlow's products are as fast (ADR 0049)."""
_SHOWN = 3
"""Most layers that are named for one reason."""
LAYERS_VARIABLE = "SANGAM_LAYERS"
"""Environment variable: `tensorflow` computes layers as on a processor without the units; `native` is the default."""


class Answer(NamedTuple):
    """Who computes a layer.

    Attributes:
        why: why TensorFlow does; empty where our operation does.
        by: how our operation computes it, such as "float32 by AVX-512".
    """

    why: str
    by: str


_Answers = dict[str, Answer]
_TOLD: ContextVar[_Answers | None] = ContextVar("told", default=None)
_PREFIX: ContextVar[str] = ContextVar("prefix", default="")


class Conditions(NamedTuple):
    """What decides, besides the layer.

    Attributes:
        precision: `float32` or `bfloat16`.
        has_units: whether the processor has the units for it.
        is_in_training: whether the graph is a training's on the host.
        is_on: whether LAYERS_VARIABLE allows our operation.
    """

    precision: str
    has_units: bool
    is_in_training: bool
    is_on: bool


def why_tensorflow(inputs: int, outputs: int, conditions: Conditions) -> str:
    """Returns why TensorFlow computes a layer; "" if our operation does.

    >>> why_tensorflow(4096, 64, Conditions("float32", True, True, True))
    '4,096 inputs > 2,048'
    """
    if not conditions.is_in_training:
        return "not on the host's processor"
    if not conditions.is_on:
        return f"{LAYERS_VARIABLE}=tensorflow"
    if not conditions.has_units:
        return f"the processor has no {'AVX512-BF16' if conditions.precision == 'bfloat16' else 'AVX-512'}"
    if inputs > _WIDEST:
        return f"{inputs:,} inputs > {_WIDEST:,}"
    # Our products compute 32 columns at a time.
    return "one output" if outputs == 1 else ""


def is_native(matrices: Mapping[str, tf.Tensor], x: tf.Tensor) -> bool:
    """Returns whether our operation computes layers of one input, by the widest; remembers why not, see `told`.

    Args:
        matrices: matrices by name: [inputs, outputs].
        x: input: [batch, inputs], or with more axes.

    Raises:
        UserError: LAYERS_VARIABLE has an unknown value.
    """
    shapes = [tuple(w.shape) for w in matrices.values()]
    why = why_tensorflow(shapes[0][0], max(outputs for _, outputs in shapes), _conditions(x.dtype))
    if not why and x.shape.rank != 2:
        why = f"its input has {x.shape.rank} axes"
    remember(matrices, why, x.dtype)
    return not why


def remember(matrices: Iterable[str], why: str, dtype: tf.DType) -> None:
    """Remembers who computes matrices of these names, for `told`."""
    if (answers := _TOLD.get()) is not None:
        answers |= {
            f"{_PREFIX.get()}{name}": Answer(why, f"{dtype.name} by {fused.units_of(dtype)}") for name in matrices
        }


@contextmanager
def below(prefix: str) -> Iterator[None]:
    """Makes names of weights those below a prefix: a part of others knows its weights by the rest of their names."""
    token = _PREFIX.set(prefix)
    try:
        yield
    finally:
        _PREFIX.reset(token)


def _conditions(dtype: tf.DType) -> Conditions:
    if not (fused.is_used() and dtype in (tf.float32, tf.bfloat16)):
        # Whoever exports or scores needs no library.
        return Conditions(dtype.name, has_units=False, is_in_training=False, is_on=False)
    return Conditions(dtype.name, has_units=fused.has_units_for(dtype), is_in_training=True, is_on=_is_on())


def _is_on() -> bool:
    value = os.environ.get(LAYERS_VARIABLE, "native")
    if value not in ("native", "tensorflow"):
        raise UserError(f"{LAYERS_VARIABLE}: unknown (got {value!r}); take native or tensorflow, or unset it")
    return value == "native"


@contextmanager
def told() -> Iterator[_Answers]:
    """Yields the answers for the layers of graphs traced meanwhile, by the name of their matrix."""
    answers: _Answers = {}
    token = _TOLD.set(answers)
    try:
        yield answers
    finally:
        _TOLD.reset(token)


def line(answers: Mapping[str, Answer], weights: Sequence[Weight]) -> str:
    """Returns which code computes the matrices of a ranker, and why, as one line; empty without answers.

    Args:
        answers: of `told`; a matrix that is missing is read by a part's own code.
        weights: weights of the ranker.

    >>> line({"a/w": Answer("", "float32 by AVX-512")}, [Weight("a/w", (2, 3)), Weight("b/w", (3, 4))])
    'dense layers: 1 of 2 native (float32 by AVX-512); by TensorFlow: b (own code)'
    """
    matrices = [each.name for each in weights if len(each.shape) >= 2 and each.start == "glorot"]
    by_reason: dict[str, list[str]] = {}
    for name in matrices:
        why = answers[name].why if name in answers else "own code"
        by_reason.setdefault(why, []).append(name.removesuffix("/w"))
    native = len(by_reason.pop("", []))
    by = ", ".join(dict.fromkeys(answer.by for answer in answers.values() if not answer.why))
    said = f"dense layers: {native} of {len(matrices)} native" + (f" ({by})" if native else "")
    others = ", ".join(f"{_named(names)} ({why})" for why, names in by_reason.items())
    return "" if not answers else f"{said}; by TensorFlow: {others}" if others else said


def _named(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

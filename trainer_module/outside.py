"""The tensors that parts of others compute, checked where they enter the model."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sangam.schemas.parts.calls import first_line, refused, told
from sangam.schemas.parts.kinds import Part

Shape = Sequence[int | None]


def computed(part: Part, *arguments: Any, shape: Shape, dtype: tf.DType) -> tf.Tensor:
    """Returns the result of the method that computes a part.

    Args:
        part: a part of others.
        arguments: arguments of the method.
        shape: sizes of the result's axes; None: any.
        dtype: type of the result.

    Raises:
        UserError: if the method raises anything, or its result is no tensor of this shape and type.
    """
    found = told(part, getattr(part, part.compute), *arguments)
    try:
        result = tf.convert_to_tensor(found)
    except (TypeError, ValueError) as error:
        got = f"returned no tensor (got {type(found).__name__}: {first_line(error)})"
        raise refused(part, got, f"a tensor of shape {_shown(shape)}") from None
    if not result.shape.is_compatible_with(list(shape)):
        got = "an unknown shape" if result.shape.rank is None else _shown(result.shape.as_list())
        raise refused(part, f"returned the shape {got}", f"the shape {_shown(shape)}")
    if result.dtype != dtype:
        raise refused(part, f"returned {result.dtype.name}", dtype.name)
    # The contract knows sizes that the graph may not.
    return tf.ensure_shape(result, list(shape))


def _shown(shape: Shape) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in shape)}]"

"""The tensors that parts of others compute, checked where they enter the model."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sangam.schemas.parts.calls import first_line, refused, told
from sangam.schemas.parts.kinds import Part

Shape = Sequence[int | None]

_NATIVE = "Sangam"
"""Start of the names of our own operations: the product's layers use them in training, and stock ones when served."""
_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_VARIABLES = ("VarHandleOp", "VariableV2", "MutableHashTableV2", "MutableDenseHashTableV2")
_RANDOM = (
    *("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "RandomShuffle", "Multinomial"),
    *("RandomGamma", "RandomPoissonV2"),
)


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
    found = traced(part, *arguments)
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


def traced(part: Part, *arguments: Any) -> Any:
    """Returns the result of the method that computes a part, made of operations that can be exported.

    Raises:
        UserError: see `computed`; or the method calls Python in each step, keeps a variable, or draws random numbers
            that another run would not draw.
    """
    method = getattr(part, part.compute)
    if tf.executing_eagerly():
        return told(part, method, *arguments)
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    found = told(part, method, *arguments)
    for operation in graph.get_operations()[before:]:
        for kind in (operation.type, *_inside(graph, operation)):
            if why := _refusal(kind):
                raise refused(part, f"uses the operation {kind}, which {why}", "stock operations of its arguments")
    return found


def _inside(graph: Any, operation: tf.Operation) -> set[str]:
    """Returns the kinds of the operations in the functions that an operation calls, directly or through others."""
    waiting, seen, kinds = _called(operation.node_def), set[str](), set[str]()
    library = {each.signature.name: each for each in graph.as_graph_def().library.function} if waiting else {}
    while waiting:
        name = waiting.pop()
        if name in seen or name not in library:
            continue
        seen.add(name)
        for node in library[name].node_def:
            kinds.add(node.op)
            waiting |= _called(node)
    return kinds


def _called(node: Any) -> set[str]:
    attributes = node.attr.values()
    return {each.func.name for each in attributes if each.func.name} | {
        function.name for each in attributes for function in each.list.func
    }


def _refusal(kind: str) -> str:
    """Returns why an operation is refused; "" if it is not."""
    if kind in _PYTHON:
        return "calls Python: a server has none of it"
    if kind in _VARIABLES:
        return "makes a variable: `weights` declares what is learned, and the arguments have it"
    if kind in _RANDOM:
        return "draws other numbers in each run: `noise.dropout` and tf.random.stateless_uniform do not"
    if kind.startswith(_NATIVE):
        return ""
    return "" if hasattr(tf.raw_ops, kind) else "is not TensorFlow's own: a server may lack it"


def _shown(shape: Shape) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in shape)}]"

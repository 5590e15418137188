"""What a signature of a loaded model takes and gives, and whether a request's tensors fit it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from components.server.request_error import invalid

DEFAULT = "serving_default"
RANK = "rank"
_UPDATE = re.compile(r"^(upsert|remove)(_|$)")
_STRING_BYTES = 8
Tensors = Mapping[str, Any]
"""Name to tf.Tensor."""


@dataclass(frozen=True)
class Input:
    """What an input of a signature must be: read once from its tf.TensorSpec, which takes long to be asked.

    Attributes:
        name: of the input.
        dtype: a tf.DType.
        number: the same in messages.
        numpy_dtype: that arrays of it have.
        value_bytes: of one value, of a string only what it takes besides its characters.
        lengths: of the dimensions, None: any; None in place of all: any shape.
    """

    name: str
    dtype: Any
    number: int
    numpy_dtype: Any
    value_bytes: int
    lengths: tuple[int | None, ...] | None

    @staticmethod
    def of(name: str, spec: Any) -> "Input":
        """Reads a tf.TensorSpec."""
        is_string = spec.dtype == tf.string
        return Input(
            name=name,
            dtype=spec.dtype,
            number=spec.dtype.as_datatype_enum,
            numpy_dtype=np.dtype(object if is_string else spec.dtype.as_numpy_dtype),
            value_bytes=_STRING_BYTES if is_string else spec.dtype.size,
            lengths=None if spec.shape.rank is None else tuple(spec.shape.as_list()),
        )

    @property
    def is_string(self) -> bool:
        """Whether its values are strings."""
        return self.number == types_pb2.DT_STRING

    def check_shape(self, shape: Sequence[int]) -> None:
        """Refuses a tensor of another rank, or another length where the signature declares one.

        Raises:
            Refused: naming the input.
        """
        wanted = self.lengths
        if wanted is None:
            return
        if len(shape) != len(wanted) or any(b is not None and a != b for a, b in zip(shape, wanted, strict=True)):
            shown = ", ".join("any" if length is None else str(length) for length in wanted)
            raise invalid(f"inputs.{self.name}: wrong shape (got {list(shape)}); [{shown}] is needed")


@dataclass(frozen=True)
class Signature:
    """One signature.

    Attributes:
        name: of it.
        inputs: by name.
        outputs: name to tf.TensorSpec.
        call: takes tensors by name, and returns them so.
    """

    name: str
    inputs: Mapping[str, Input]
    outputs: Mapping[str, Any]
    call: Callable[[Tensors], Tensors]

    @property
    def is_update(self) -> bool:
        """Whether it changes the model."""
        return _UPDATE.match(self.name) is not None

    def check_names(self, given: Collection[str]) -> None:
        """Refuses missing and unknown inputs.

        Raises:
            Refused: naming all of them.
        """
        if self.inputs.keys() == set(given):
            return
        if missing := sorted(self.inputs.keys() - set(given)):
            raise invalid(
                f"inputs: {', '.join(missing)} missing (got {_listed(given)}); signature {self.name} needs "
                f"{_listed(self.inputs)}"
            )
        unknown = sorted(set(given) - self.inputs.keys())
        raise invalid(
            f"inputs: {', '.join(unknown)} unknown (got {_listed(given)}); signature {self.name} takes "
            f"{_listed(self.inputs)}"
        )

    def num_rows(self, tensors: Tensors) -> int:
        """Returns how many rows a request asks for: candidates of `rank`, examples of `serving_default`.

        Each input of `rank` has that many rows, or 1 that stands for all.

        Raises:
            Refused: when the rows do not agree.
        """
        rows = {name: shape[0] for name, tensor in tensors.items() if len(shape := tensor.shape)}
        if not rows:
            return 1
        if self.name != RANK:
            return int(max(rows.values()))
        several = {length for length in rows.values() if length != 1}
        if len(several) > 1:
            got = ", ".join(f"{name}: {length}" for name, length in sorted(rows.items()) if length != 1)
            raise invalid(f"inputs: numbers of rows do not agree (got {got}); each must be 1 or the same")
        return int(several.pop()) if several else 1

    def nothing(self) -> dict[str, Any] | None:
        """Returns the outputs for no rows at all, name to array; None where the signature does not tell their shape."""
        shapes = {name: spec.shape for name, spec in self.outputs.items()}
        if any(not shape.rank or not shape[1:].is_fully_defined() for shape in shapes.values()):
            return None
        return {name: tf.zeros([0, *shapes[name][1:]], spec.dtype).numpy() for name, spec in self.outputs.items()}


def signatures_of(loaded: Any) -> dict[str, Signature]:
    """Returns the signatures of a loaded SavedModel by name."""
    return {name: _signature(name, function) for name, function in loaded.signatures.items()}


def _signature(name: str, function: Any) -> Signature:
    specs = function.structured_input_signature[1]
    inputs = {name: Input.of(name, spec) for name, spec in specs.items()}
    return Signature(name, inputs, dict(function.structured_outputs), _prepared(function))


def _prepared(function: Any) -> Callable[[Tensors], Tensors]:
    """Returns a concrete function as one of tensors by name, all of the signature's types.

    What the function itself does with names takes a quarter as long as a small ranker does with 200 candidates.
    """
    names = function.structured_input_signature[1].keys()
    order = [tensor.op.name for tensor in function.inputs[: len(names)]]
    if set(order) != names:  # Names that graphs cannot have.
        return lambda tensors: function(**tensors)
    call, captured = function.inference_fn.call_preflattened, list(function.captured_inputs)
    return lambda tensors: call([tensors[name] for name in order] + captured)


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"

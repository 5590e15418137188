"""The inputs and outputs of a loaded model's signature, and checks of a request's tensors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from sangam.components.server.request_error import invalid
from sangam.components.server.session import Arrays, ModelSession, SignatureCall
from sangam.schemas.contracts.export import RANK, RANK_SEVERAL, SERVE, changes_model
from sangam.schemas.contracts.request_log import POSITION_INPUT, PROPENSITY_INPUT
from sangam.schemas.derived.rank_inputs import LENGTH, REQUEST_NUMBER

_STRING_BYTES = 8


@dataclass(frozen=True)
class Input:
    """An input of a signature, read once from its tf.TensorSpec, which is slow.

    Attributes:
        name: name of the input.
        dtype: a tf.DType.
        number: the type's number in messages.
        numpy_dtype: NumPy dtype of its arrays.
        value_bytes: size of one value; for a string, without its characters.
        lengths: lengths of the dimensions, None: any; None instead of the tuple: any shape.
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
        """Whether the values are strings."""
        return self.number == types_pb2.DT_STRING

    def check_shape(self, shape: Sequence[int]) -> None:
        """Refuses a tensor whose shape does not fit the signature.

        Raises:
            RequestError: with the input's name.
        """
        expected = self.lengths
        if expected is None:
            return
        if len(shape) != len(expected) or any(b is not None and a != b for a, b in zip(shape, expected, strict=True)):
            shown = ", ".join("any" if length is None else str(length) for length in expected)
            raise invalid(f"inputs.{self.name}: wrong shape (got {list(shape)}); [{shown}] is needed")


LOG_INPUTS = {
    POSITION_INPUT: Input.of(POSITION_INPUT, tf.TensorSpec([None], tf.int64)),
    PROPENSITY_INPUT: Input.of(PROPENSITY_INPUT, tf.TensorSpec([None], tf.float32)),
}
"""Inputs that any request may have for the log alone."""


@dataclass(frozen=True)
class Signature:
    """One signature.

    Attributes:
        name: name of the signature.
        inputs: inputs by name.
        outputs: name to tf.TensorSpec.
        call: function from input arrays to output arrays, both by name.
        is_joinable: whether the rows of several requests can be computed in one call: each row's outputs are its own.
        takes_requests: whether a call may have one row for each of several requests, and `REQUEST_NUMBER`.
    """

    name: str
    inputs: Mapping[str, Input]
    outputs: Mapping[str, Any]
    call: Callable[[Arrays], dict[str, NDArray[Any]]]
    is_joinable: bool = False
    takes_requests: bool = False

    @property
    def is_update(self) -> bool:
        """Whether it changes the model."""
        return changes_model(self.name)

    def input(self, name: str) -> Input:
        """Returns an input of the model or of the log, one that `check_names` has let pass."""
        return self.inputs.get(name) or LOG_INPUTS[name]

    def check_names(self, given: Collection[str]) -> None:
        """Refuses missing and unknown inputs.

        Raises:
            RequestError: with all of them.
        """
        given = set(given) - LOG_INPUTS.keys()
        if self.inputs.keys() == given:
            return
        if missing := sorted(self.inputs.keys() - given):
            raise invalid(
                f"inputs: {', '.join(missing)} missing (got {_listed(given)}); signature {self.name} needs "
                f"{_listed(self.inputs)}"
            )
        unknown = sorted(given - self.inputs.keys())
        raise invalid(
            f"inputs: {', '.join(unknown)} unknown (got {_listed(given)}); signature {self.name} takes "
            f"{_listed(self.inputs)}"
        )

    def num_rows(self, arrays: Arrays) -> int:
        """Returns the number of rows of a request: candidates for `rank`, examples for `serving_default`.

        Each input of `rank` has this number of rows, or a single one for all.

        Raises:
            RequestError: if the numbers of rows do not agree.
        """
        rows = {name: shape[0] for name, array in arrays.items() if len(shape := array.shape)}
        if not rows:
            return 1
        if self.name != RANK:
            return int(max(rows.values()))
        several = {length for length in rows.values() if length != 1}
        if len(several) > 1:
            got = ", ".join(f"{name}: {length}" for name, length in sorted(rows.items()) if length != 1)
            raise invalid(f"inputs: numbers of rows do not agree (got {got}); each must be 1 or the same")
        return int(several.pop()) if several else 1

    def empty_outputs(self) -> dict[str, Any] | None:
        """Returns the outputs for no rows, name to array; None if the signature does not define their shape."""
        shapes = {name: spec.shape for name, spec in self.outputs.items()}
        if any(not shape.rank or not shape[1:].is_fully_defined() for shape in shapes.values()):
            return None
        return {
            name: np.zeros([0, *shapes[name][1:]], spec.dtype.as_numpy_dtype) for name, spec in self.outputs.items()
        }


def signatures_of(session: ModelSession) -> dict[str, Signature]:
    """Returns the signatures of a loaded SavedModel by name, without those that clients do not call."""
    return {name: _signature(name, session) for name in session.signature_defs if name != RANK_SEVERAL}


def _signature(name: str, session: ModelSession) -> Signature:
    signature_def = session.signature_defs[name]
    inputs = {each: Input.of(each, _spec(info)) for each, info in signature_def.inputs.items()}
    outputs = {each: _spec(info) for each, info in signature_def.outputs.items()}
    is_joinable = _is_joinable(name, inputs, outputs)
    if name == RANK and RANK_SEVERAL in session.signature_defs:
        # One graph for one request and for several.
        return Signature(name, inputs, outputs, _numbered(session.call(RANK_SEVERAL)), is_joinable, takes_requests=True)
    return Signature(name, inputs, outputs, session.call(name), is_joinable)


def _numbered(several: SignatureCall) -> Callable[[Arrays], dict[str, NDArray[Any]]]:
    """Returns a call of `RANK_SEVERAL` that takes rows without numbers as those of one request."""

    def call(arrays: Arrays) -> dict[str, NDArray[Any]]:
        if REQUEST_NUMBER in arrays:
            return several(arrays)
        rows = [len(array) for array in arrays.values()]
        return several({**arrays, REQUEST_NUMBER: np.zeros(max(rows) if all(rows) else 0, np.int32)})

    return call


def _spec(info: meta_graph_pb2.TensorInfo) -> tf.TensorSpec:
    return tf.TensorSpec(tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype))


def _is_joinable(name: str, inputs: Mapping[str, Input], outputs: Mapping[str, Any]) -> bool:
    lengths = [expected.lengths or () for expected in inputs.values()]
    if any(each[:1] != (None,) for each in lengths) or any(
        not spec.shape.rank or spec.shape[0] is not None for spec in outputs.values()
    ):
        return False
    if name == RANK:  # Lists are padded: the model needs their lengths.
        return all(len(expected.lengths or ()) == 1 or name + LENGTH in inputs for name, expected in inputs.items())
    return name == SERVE and [len(each) for each in lengths] == [1]


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"

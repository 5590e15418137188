"""What a signature of a loaded model takes and gives, and whether a request's tensors fit it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from components.server.refused import invalid

DEFAULT = "serving_default"
RANK = "rank"
_UPDATE = re.compile(r"^(upsert|remove)(_|$)")
Tensors = Mapping[str, Any]
"""Name to tf.Tensor."""


@dataclass(frozen=True)
class Signature:
    """One signature.

    Attributes:
        name: of it.
        inputs: name to tf.TensorSpec.
        outputs: name to tf.TensorSpec.
        call: the concrete function; takes the inputs by name.
    """

    name: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    call: Any

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

    def check_shape(self, name: str, shape: Collection[int]) -> None:
        """Refuses a tensor of another rank, or another length where the signature declares one.

        Raises:
            Refused: naming the input.
        """
        wanted = self.inputs[name].shape
        if not wanted.is_compatible_with(list(shape)):
            raise invalid(f"inputs.{name}: wrong shape (got {list(shape)}); {_shown(wanted)} is needed")

    def num_rows(self, tensors: Tensors) -> int:
        """Returns how many rows a request asks for: candidates of `rank`, examples of `serving_default`.

        Each input of `rank` has that many rows, or 1 that stands for all.

        Raises:
            Refused: when the rows do not agree.
        """
        rows = {name: tensor.shape[0] for name, tensor in tensors.items() if tensor.shape.rank}
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
    return {
        name: Signature(name, function.structured_input_signature[1], dict(function.structured_outputs), function)
        for name, function in loaded.signatures.items()
    }


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _shown(shape: Any) -> str:
    return f"[{', '.join('any' if length is None else str(length) for length in shape)}]"

"""The interface for parts of your own.

Features, encoders, interactions, architectures, losses and dense optimizers are computed in TensorFlow; metrics,
slices and samplers of negatives in NumPy; receivers of alerts in Python.

A part is a class below a role with `kind: Literal["name"]`; its fields are its keys in the spec, with the docstrings
below them as descriptions. It declares what it reads and weighs, and one method computes it. A spec names
the module in `parts:` and the part by its kind. docs/parts.md leads through one; `sangam.testing` checks it.

Shape suffixes of tensors: B batch, I inputs, O outputs, T tasks, R lists, D dimension.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sangam.schemas.parts.base import (
    ColumnName,
    Fraction,
    Name,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Units,
)
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.files import PinnedFile
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.judging import AlertTarget, Array, Direction, Metric, NegativeSampler, Slice, TaskKind
from sangam.schemas.parts.roles import (
    Architecture,
    BinaryLoss,
    DenseOptimizer,
    Encoder,
    Examples,
    Feature,
    Interaction,
    Lists,
    Noise,
    RegressionLoss,
    Tensor,
    Weights,
)
from sangam.schemas.parts.weight import Blocks, Weight, dense, heads, mlp, side_by_side, towers, weight, width_of
from sangam.schemas.problems import Problem

if TYPE_CHECKING:
    import tensorflow as tf
else:

    class _TensorFlow:
        """TensorFlow, loaded at its first use: a spec is validated without it."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # Asked of every object by tools such as pytest.
                raise AttributeError(name)
            return getattr(importlib.import_module("tensorflow"), name)

    tf = _TensorFlow()

VERSION = 1
"""Version of this interface. It grows when a part that ran before would not."""

__all__ = [
    "VERSION",
    "AlertTarget",
    "Architecture",
    "Array",
    "BinaryLoss",
    "Blocks",
    "Column",
    "ColumnName",
    "DenseOptimizer",
    "Direction",
    "Encoder",
    "Examples",
    "Feature",
    "Fraction",
    "Interaction",
    "Lists",
    "Metric",
    "ModelInputs",
    "Name",
    "NegativeSampler",
    "Noise",
    "NonNegativeFloat",
    "PinnedFile",
    "PositiveFloat",
    "PositiveInt",
    "Problem",
    "RegressionLoss",
    "Slice",
    "TaskKind",
    "Tensor",
    "Units",
    "Weight",
    "Weights",
    "dense",
    "heads",
    "mlp",
    "side_by_side",
    "tf",
    "towers",
    "weight",
    "width_of",
]

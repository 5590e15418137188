"""A dense weight: its name, shape and start."""

import math
from dataclasses import dataclass
from typing import Literal

Blocks = tuple[tuple[str, int], ...]
"""Named runs of positions along an axis, with their sizes."""
Axis = int | Blocks
"""An axis of a weight: its size, or the named runs that make it up."""

Start = Literal["glorot", "zeros", "ones", "signs", "normal"]


@dataclass(frozen=True)
class Weight:
    """One dense weight.

    Attributes:
        name: unique name in the model, `layer/part`.
        shape: sizes of its axes.
        start: distribution of the initial values. `glorot`: uniform in +-sqrt(6 / (fan in + fan out)) over the last two
            axes (Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks, AISTATS
            2010, equation 16); `signs`: -1 or 1, equally likely; `normal`: normal with mean 0.
        deviation: standard deviation of a normal start.
        columns: number of equal blocks of columns that are separate matrices, each with its own fan out.
        blocks: for each axis, its named runs, or None; empty where no axis has names. After a change of features or
            tasks, a warm start matches the remaining runs by these names.
    """

    name: str
    shape: tuple[int, ...]
    start: Start = "glorot"
    deviation: float = 1.0
    columns: int = 1
    blocks: tuple[Blocks | None, ...] = ()

    @property
    def size(self) -> int:
        """Number of floats."""
        return math.prod(self.shape)


def weight(name: str, *axes: Axis, start: Start = "glorot", deviation: float = 1.0, columns: int = 1) -> Weight:
    """Returns the weight with these axes."""
    blocks = tuple(None if isinstance(axis, int) else axis for axis in axes)
    return Weight(name, tuple(map(width_of, axes)), start, deviation, columns, blocks if any(blocks) else ())


def width_of(axis: Axis) -> int:
    """Returns the size of an axis."""
    return axis if isinstance(axis, int) else sum(size for _, size in axis)

"""A dense weight: its name, shape and start."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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


def dense(name: str, inputs: Axis, units: Axis, columns: int = 1, start: Start = "glorot") -> Iterator[Weight]:
    """Yields the weights of a linear layer, `name/w` and `name/b`."""
    yield weight(f"{name}/w", inputs, units, columns=columns, start=start)
    yield weight(f"{name}/b", units, start="zeros")


def mlp(name: str, inputs: Axis, units: Sequence[int]) -> Iterator[Weight]:
    """Yields the weights of dense layers, one after another: `name/0`, `name/1`, ..."""
    widths: list[Axis] = [inputs, *units]
    for position, (before, after) in enumerate(itertools.pairwise(widths)):
        yield from dense(f"{name}/{position}", before, after)


def side_by_side(name: str, inputs: Axis, units: Sequence[int], networks: int | Sequence[str]) -> Iterator[Weight]:
    """Yields several MLPs whose first layers are one matrix; a warm start matches named networks."""
    names = [str(number) for number in range(networks)] if isinstance(networks, int) else list(networks)
    columns: Axis = len(names) * units[0]
    if not isinstance(networks, int):
        columns = tuple((network, units[0]) for network in names)
    yield from dense(f"{name}/first", inputs, columns, columns=len(names))
    for network in names:
        yield from mlp(f"{name}/{network}", units[0], units[1:])


def heads(tasks: Sequence[str], inputs: int) -> Iterator[Weight]:
    """Yields a linear layer with one output for each task: `heads/<task>`."""
    for task in tasks:
        yield from dense(f"heads/{task}", inputs, 1)


def towers(tasks: Sequence[str], inputs: int, units: Sequence[int]) -> Iterator[Weight]:
    """Yields an MLP for each task, `towers/<task>`, and the heads."""
    for task in tasks:
        yield from mlp(f"towers/{task}", inputs, units)
    yield from heads(tasks, units[-1])


def under(prefix: str, weights: Iterable[Weight]) -> Iterator[Weight]:
    """Yields weights with a prefix before their names."""
    return (replace(each, name=f"{prefix}{each.name}") for each in weights)


def width_of(axis: Axis) -> int:
    """Returns the size of an axis."""
    return axis if isinstance(axis, int) else sum(size for _, size in axis)

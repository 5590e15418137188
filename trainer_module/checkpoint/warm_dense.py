"""Dense weights from another spec's checkpoint: those of the same name and shape, or the same named blocks."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.parts.weight import Weight
from sangam.trainer_module.checkpoint.manifest import WeightLayout
from sangam.trainer_module.dense.initial import initial
from sangam.trainer_module.snapshot import AVERAGE, WEIGHTS, Arrays

Positions = list[NDArray[Any]]


def matching_positions(held: WeightLayout, wanted: WeightLayout) -> tuple[Positions, Positions] | None:
    """Returns, for each axis, which positions of the old weight go to which of the new; None where nothing matches."""
    if len(held.shape) != len(wanted.shape):
        return None
    by_axis: tuple[Positions, Positions] = ([], [])
    for axis, (old_size, new_size) in enumerate(zip(held.shape, wanted.shape, strict=True)):
        old_blocks, new_blocks = _blocks(held, axis), _blocks(wanted, axis)
        if old_blocks is None or new_blocks is None:
            if old_size != new_size:
                return None
            of_axis: tuple[list[int], list[int]] = (list(range(old_size)), list(range(new_size)))
        else:
            of_axis = _common(old_blocks, new_blocks)
        for side, of_side in zip(by_axis, of_axis, strict=True):
            side.append(np.array(of_side, np.int64))
    return by_axis if all(len(of_axis) for of_axis in by_axis[0]) else None


def _blocks(layout: WeightLayout, axis: int) -> tuple[tuple[str, int], ...] | None:
    return layout.blocks[axis] if layout.blocks else None


def _common(
    old_blocks: Sequence[tuple[str, int]], new_blocks: Sequence[tuple[str, int]]
) -> tuple[list[int], list[int]]:
    """Returns the positions of the blocks that both have in the same size, in the order of the new ones."""
    starts, start = {}, 0
    for name, size in old_blocks:
        starts[name, size] = start
        start += size
    old: list[int] = []
    new: list[int] = []
    start = 0
    for name, size in new_blocks:
        if (name, size) in starts:
            old += range(starts[name, size], starts[name, size] + size)
            new += range(start, start + size)
        start += size
    return old, new


def started_from(
    held: Arrays, old: WeightLayout, weight: Weight, new: WeightLayout, *, seed: int, starts: Mapping[str, float]
) -> Arrays | None:
    """Returns a weight and its moments, `<moment>/<name>`; new parts have initial values. None where nothing matches.

    Args:
        held: arrays of the checkpoint.
        old: layout of the weight in the checkpoint.
        weight: weight to start.
        new: layout of that weight.
        seed: seed of its initial values.
        starts: initial values of the optimizer's moments, by name.
    """
    positions = matching_positions(old, new)
    if positions is None:
        return None
    arrays: Arrays = {}
    for moment in sorted({name.split("/", 1)[0] for name in held}):
        is_moment = moment not in (WEIGHTS, AVERAGE)
        start = np.full(weight.shape, starts.get(moment, 0.0), np.float32) if is_moment else initial(weight, seed)
        start[np.ix_(*positions[1])] = held[f"{moment}/{weight.name}"][np.ix_(*positions[0])]
        arrays[f"{moment}/{weight.name}"] = start
    return arrays


def of_the_base(layout: WeightLayout, changed: Collection[str]) -> WeightLayout:
    """Returns a layout that renames the blocks of changed features, so that no new weight matches them."""

    def named(block: str) -> str:
        # The block of a dot product carries both features' names.
        return f"{block} of the base" if set(block.split(" ")) & set(changed) else block

    axes = (axis and tuple((named(block), size) for block, size in axis) for axis in layout.blocks)
    return layout.model_copy(update={"blocks": tuple(axes)})


def changed_blocks(old: WeightLayout, new: WeightLayout) -> tuple[list[str], list[str]]:
    """Returns the blocks that only the new weight has, and those that only the old one had: `weight[block]`."""
    sides = [
        {block for axis in range(len(layout.shape)) for block in _blocks(layout, axis) or ()} for layout in (new, old)
    ]
    only_new, only_old = sides[0] - sides[1], sides[1] - sides[0]
    return [f"{new.name}[{name}]" for name, _ in sorted(only_new)], [
        f"{old.name}[{name}]" for name, _ in sorted(only_old)
    ]

"""The memory of a rank's GPU, by the place of the rows. Sums of sizes: nothing here was measured on a GPU."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sangam.schemas.derived.groups import Group, groups_of
from sangam.schemas.derived.model_inputs import model_inputs
from sangam.schemas.derived.process_memory import rank_plan
from sangam.schemas.derived.sizes import FLOAT_BYTES, high_share
from sangam.schemas.derived.weights import dense_weights
from sangam.schemas.parts.weight import width_of
from sangam.schemas.spec import RankerSpec

CONTEXT_BYTES = 600_000_000
"""Assumed, not measured: CUDA's context, cuBLAS and its workspace."""
_ROOM = 9 / 8
"""Of a table with a capacity, from the start: `stores_of`."""


@dataclass(frozen=True)
class DevicePlan:
    """One rank's GPU, in bytes.

    Attributes:
        tables: tables whose rows are in its memory.
        dense: weights, moments, average and a gradient.
        batch: inputs, outputs of layers, and their gradients.
        rows: of these tables, with slots and bookkeeping; keys and index are on the host.
        growth: the copy while the largest group without a capacity moves into twice the room.
    """

    tables: tuple[str, ...]
    dense: float
    batch: float
    rows: float
    growth: float

    @property
    def total(self) -> float:
        """All of it, with CUDA's own."""
        return CONTEXT_BYTES + self.dense + self.batch + self.rows + self.growth


def device_plan(ranker: RankerSpec, rows: Mapping[str, int], *, ranks: int, tables: Collection[str]) -> DevicePlan:
    """Returns the plan of a rank with the largest share that one in a billion gets.

    Args:
        ranker: the spec.
        rows: rows of every table.
        ranks: number of ranks.
        tables: tables whose rows are on the device.
    """
    held = [(group, _held(group, rows, ranks, tables)) for group in groups_of(ranker).values()]
    return DevicePlan(
        tables=tuple(name for name in rows if name in tables),
        dense=rank_plan(ranker, {}, ranks=ranks).dense,
        batch=_batch_bytes(ranker),
        rows=sum(size for _, size in held),
        growth=2 * max((size for group, size in held if not _is_reserved(group, tables)), default=0.0),
    )


def fitting_tables(ranker: RankerSpec, rows: Mapping[str, int], *, ranks: int, limit: float) -> tuple[str, ...]:
    """Returns tables whose rows fit a GPU together, the smallest first."""
    widths = {table: group.width for group in groups_of(ranker).values() for table in group.tables}
    taken: list[str] = []
    for table in sorted(rows, key=lambda table: rows[table] * widths[table]):
        if device_plan(ranker, rows, ranks=ranks, tables=[*taken, table]).total > limit:
            break
        taken.append(table)
    return tuple(taken)


def _held(group: Group, rows: Mapping[str, int], ranks: int, tables: Collection[str]) -> float:
    shares = (
        high_share(rows[table], ranks) * (_ROOM if declared.capacity else 1.0)
        for table, declared in group.tables.items()
        if table in tables
    )
    return sum(shares) * group.width * FLOAT_BYTES


def _is_reserved(group: Group, tables: Collection[str]) -> bool:
    return all(declared.capacity for table, declared in group.tables.items() if table in tables)


def _batch_bytes(ranker: RankerSpec) -> float:
    """Returns inputs and outputs of all layers, and a gradient of each; of several members each has its own."""
    inputs = model_inputs(ranker)
    width = width_of(inputs.floats) + sum(width for _, width in inputs.embeddings)
    outputs = sum(
        math.prod(weight.shape) // weight.shape[-2] for weight in dense_weights(ranker) if len(weight.shape) > 1
    )
    return 2.0 * FLOAT_BYTES * ranker.training.batch_size_per_rank * (width + outputs) * ranker.model.members

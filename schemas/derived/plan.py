"""How much memory a ranker needs, by table and by rank, computed before anything starts.

Besides what a rank always holds, there are two temporary copies: one of a checkpoint being written, and one of a
group of tables that moves into twice the room.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.derived.groups import Group, groups_of
from schemas.derived.sizes import (
    COUNTER_BYTES,
    FLOAT_BYTES,
    KEY_BYTES,
    ORDER_BYTES,
    PROCESS_BYTES,
    dense_parameters,
    dense_parts,
    high_share,
    index_bytes,
    stored_bytes,
)
from schemas.errors import UserError
from schemas.problems import listed
from schemas.quantities import shown_bytes
from schemas.spec import RankerSpec

EXPORT_COPIES = {"stock": 1.5, "tfra": 2.9}
"""Peak memory of an export as a multiple of its keys and embeddings, measured by bench/export_scale.py."""


@dataclass(frozen=True)
class TablePlan:
    """One table, over all ranks.

    Attributes:
        dim: floats per embedding.
        optimizer: the kind.
        group: the physical table that it shares with tables of its dimension and kind of optimizer.
        rows: planned.
        embedding_bytes, slot_bytes, book_bytes: per row.
        index_bytes: per row, its part of the group's index.
    """

    name: str
    dim: int
    optimizer: str
    group: str
    rows: int
    embedding_bytes: int
    slot_bytes: int
    book_bytes: int
    index_bytes: float

    @property
    def stored_bytes(self) -> int:
        """Memory of a row and its key, without the index."""
        return self.embedding_bytes + self.slot_bytes + self.book_bytes + KEY_BYTES

    @property
    def row_bytes(self) -> float:
        """Memory of a row, index included."""
        return self.stored_bytes + self.index_bytes

    @property
    def total_bytes(self) -> float:
        """Memory of all rows."""
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class RankPlan:
    """One rank. Everything but `rows` is in bytes.

    Attributes:
        rows: of all tables.
        tables: rows, keys and index.
        counters: for admission.
        dense: weights, their optimizer's moments, one gradient.
        process: the process itself, before it holds anything.
        checkpoint: the copy that is written while training continues. Reading needs none.
        growth: the copy while the largest group moves into twice the room.
    """

    rows: float
    tables: float
    counters: int
    dense: int
    process: int
    checkpoint: float
    growth: float

    @property
    def held(self) -> float:
        """What it always holds."""
        return self.tables + self.counters + self.dense + self.process

    @property
    def peak(self) -> float:
        """The most it can hold: a group may grow while a checkpoint is being written."""
        return self.held + self.checkpoint + self.growth


@dataclass(frozen=True)
class Plan:
    """A whole job.

    Attributes:
        tables: by name.
        mean: a rank with its even share of every table's rows.
        high: a rank with the largest share that one in a billion gets (`high_share`).
        dense_parts: number of dense weights by part of the model.
        parameters_embedded: floats of all embeddings, without optimizers.
        export_bytes: embeddings and keys of all tables, which the exporting process holds at once.
        export_peak_bytes: its peak memory for that, in the spec's export form, with float32 rows.
    """

    ranks: int
    tables: dict[str, TablePlan]
    mean: RankPlan
    high: RankPlan
    dense_parts: dict[str, int]
    parameters_embedded: int
    export_bytes: int
    export_peak_bytes: float

    @property
    def parameters_dense(self) -> int:
        """Number of dense weights, without optimizers."""
        return sum(self.dense_parts.values())


def plan(ranker: RankerSpec, *, rows: Mapping[str, int], ranks: int) -> Plan:
    """Returns the memory plan of a ranker.

    Args:
        ranker: the spec.
        rows: by table; tables that are left out have the rows of their capacity.
        ranks: how many share the rows.

    Raises:
        UserError: an unknown table, or one without a number of rows.
    """
    all_rows = rows_by_table(ranker, rows)
    groups = groups_of(ranker)
    tables = {}
    totals = {name: sum(all_rows[table] for table in group.tables) for name, group in groups.items()}
    mean = {name: total / ranks for name, total in totals.items()}
    high = {name: sum(high_share(all_rows[table], ranks) for table in group.tables) for name, group in groups.items()}
    for name, group in groups.items():
        index = ranks * index_bytes(high[name]) / max(totals[name], 1)
        for table in group.tables:
            tables[table] = TablePlan(
                name=table,
                dim=group.dim,
                optimizer=ranker.optimizer_of(table).kind,
                group=name,
                rows=all_rows[table],
                embedding_bytes=group.dim * FLOAT_BYTES,
                slot_bytes=group.num_slot_floats * FLOAT_BYTES,
                book_bytes=group.num_book_floats * FLOAT_BYTES,
                index_bytes=index,
            )
    export_bytes = sum(table.rows * (table.embedding_bytes + 8) for table in tables.values())
    return Plan(
        ranks=ranks,
        tables={name: tables[name] for name in sorted(tables)},
        mean=_rank(ranker, groups, mean),
        high=_rank(ranker, groups, high),
        dense_parts=dense_parts(ranker),
        parameters_embedded=sum(table.rows * table.dim for table in tables.values()),
        export_bytes=export_bytes,
        export_peak_bytes=EXPORT_COPIES[ranker.export.form] * export_bytes,
    )


def rows_by_table(ranker: RankerSpec, given: Mapping[str, int]) -> dict[str, int]:
    """Returns the rows of every table: those given, else its capacity.

    Raises:
        UserError: an unknown table, or one without a number of rows.
    """
    names = list(ranker.table_tags())
    for name in given:
        if name not in names:
            raise UserError(f"--rows: no such table (got '{name}'); tables of the spec: {listed(names)}")
    capacities = {name: ranker.tables[name].capacity for name in names}
    known = {name: capacity.rows for name, capacity in capacities.items() if capacity} | dict(given)
    unknown = [name for name in names if name not in known]
    if unknown:
        example = ",".join(f"{name}=1e6" for name in unknown)
        raise UserError(
            f"--rows: is missing for tables without a capacity (got none for {listed(unknown)}); "
            f"add --rows {example} with your own numbers"
        )
    return {name: known[name] for name in names}


def _rank(ranker: RankerSpec, groups: Mapping[str, Group], rows: Mapping[str, float]) -> RankPlan:
    stored = {name: rows[name] * stored_bytes(group) for name, group in groups.items()}
    index = {name: index_bytes(rows[name]) for name in groups}
    counters = COUNTER_BYTES * sum(group.num_counters for group in groups.values())
    moments = ranker.training.dense_optimizer.num_moments
    dense = dense_parameters(ranker) * FLOAT_BYTES
    return RankPlan(
        rows=sum(rows.values()),
        tables=sum(stored.values()) + sum(index.values()),
        counters=counters,
        dense=dense * (2 + moments),
        process=PROCESS_BYTES,
        # Groups are sorted for the files one after another.
        checkpoint=sum(stored.values())
        + counters
        + dense * (1 + moments)
        + ORDER_BYTES * max(rows.values(), default=0),
        # Groups reach their limits in different steps: no two grow at once.
        growth=max((stored[name] + index[name] / 2 for name in groups), default=0.0),
    )


def refuse_unfit(ranker: RankerSpec, available_bytes: int, *, ranks_here: int | None = None) -> None:
    """Refuses a job whose tables, filled to their capacities, do not fit this machine.

    Tables without a capacity count as empty: their size is not known beforehand.

    Args:
        ranker: the spec.
        available_bytes: memory of this machine.
        ranks_here: ranks on this machine, one of several; None: all ranks and the data workers are here.

    Raises:
        UserError: it cannot fit.
    """
    capped = {name for name in ranker.table_tags() if ranker.tables[name].capacity}
    if not capped:
        return
    rows = {name: 0 for name in ranker.table_tags() if name not in capped}
    ranks = ranker.cluster.ranks
    here, workers_here = (ranks, ranker.cluster.data_workers) if ranks_here is None else (ranks_here, 0)
    needed = here * plan(ranker, rows=rows, ranks=ranks).high.peak + workers_here * PROCESS_BYTES
    if needed > available_bytes:
        raise UserError(
            f"tables: do not fit this machine when filled to their capacity (got {listed(sorted(capped))}: "
            f"{shown_bytes(needed)} for {here} ranks, {shown_bytes(available_bytes)} available); lower capacity.rows "
            "or dim, use an optimizer with fewer slots, or a larger machine; `sangam plan` shows what needs the memory"
        )

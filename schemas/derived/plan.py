"""The memory of a ranker by table, rank and parameter server, computed before anything starts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.process_memory import ProcessPlan, rank_plan, server_plan
from sangam.schemas.derived.sizes import (
    FLOAT_BYTES,
    KEY_BYTES,
    MOST_ROWS,
    PROCESS_BYTES,
    dense_parts,
    high_share,
    index_bytes,
)
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed
from sangam.schemas.quantities import shown_bytes
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.sync import InStep

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
class Processes:
    """The ranks, or the parameter servers.

    Attributes:
        number: number of such processes.
        mean: one with its even share of every table's rows.
        high: one with the largest share that one in a billion gets (`high_share`).
    """

    number: int
    mean: ProcessPlan
    high: ProcessPlan


@dataclass(frozen=True)
class Plan:
    """A whole job.

    Attributes:
        ranks: with the rows where there are no parameter servers.
        servers: with the rows; None where the ranks hold them.
        tables: tables by name.
        dense_parts: number of dense weights by part of the model.
        parameters_embedded: floats of all embeddings, without optimizers.
        export_bytes: embeddings and keys of all tables, which the exporting process holds at once.
        export_peak_bytes: its peak memory for that, in the spec's export form, with float32 rows.
    """

    ranks: Processes
    servers: Processes | None
    tables: dict[str, TablePlan]
    dense_parts: dict[str, int]
    parameters_embedded: int
    export_bytes: int
    export_peak_bytes: float

    @property
    def parameters_dense(self) -> int:
        """Number of dense weights, without optimizers."""
        return sum(self.dense_parts.values())


def plan(ranker: RankerSpec, *, rows: Mapping[str, int], ranks: int, servers: int | None = None) -> Plan:
    """Returns the memory plan of a ranker.

    Args:
        ranker: the spec.
        rows: rows by table; other tables have the rows of their capacity.
        ranks: number of ranks.
        servers: number of parameter servers; None: the spec's.

    Raises:
        UserError: an unknown table, or one without a number of rows; servers in a mode without; more rows of a group
            than a process can hold.
    """
    if servers is not None and isinstance(ranker.training.sync, InStep):
        raise UserError(
            f"--parameter-servers: has no effect: with training.sync of kind sync the ranks hold the rows "
            f"(got {servers}); remove it"
        )
    servers = servers or ranker.num_parameter_servers
    owners = servers or ranks
    all_rows = rows_by_table(ranker, rows)
    if crowded := crowded_group(ranker, all_rows, owners):
        raise UserError(f"tables: {crowded.problem}; {crowded.fix}")
    groups = groups_of(ranker)
    tables = {}
    totals = {name: sum(all_rows[table] for table in group.tables) for name, group in groups.items()}
    mean = {name: total / owners for name, total in totals.items()}
    high = {name: sum(high_share(all_rows[table], owners) for table in group.tables) for name, group in groups.items()}
    for name, group in groups.items():
        index = owners * index_bytes(high[name]) / max(totals[name], 1)
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
    on_servers = None
    if servers:
        held = [server_plan(ranker, share, ranks=ranks, servers=servers) for share in (mean, high)]
        on_servers = Processes(servers, *held)
    export_bytes = sum(table.rows * (table.embedding_bytes + 8) for table in tables.values())
    return Plan(
        ranks=Processes(ranks, rank_plan(ranker, mean, ranks=ranks), rank_plan(ranker, high, ranks=ranks)),
        servers=on_servers,
        tables={name: tables[name] for name in sorted(tables)},
        dense_parts=dense_parts(ranker),
        parameters_embedded=sum(table.rows * table.dim for table in tables.values()),
        export_bytes=export_bytes,
        export_peak_bytes=EXPORT_COPIES[ranker.export.form] * export_bytes,
    )


def rows_by_table(ranker: RankerSpec, given: Mapping[str, int]) -> dict[str, int]:
    """Returns the rows of every table: the given number, else its capacity.

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


class Crowded(NamedTuple):
    """A group with more rows than a process can hold.

    Attributes:
        tables: its tables that have rows.
        problem, fix: what is wrong, and what to do.
    """

    tables: list[str]
    problem: str
    fix: str


def crowded_group(ranker: RankerSpec, rows: Mapping[str, int], owners: int) -> Crowded | None:
    """Returns the first group with more rows than a process can hold.

    Args:
        ranker: the spec.
        rows: rows by table; none of the others.
        owners: number of ranks, or parameter servers, that share them.
    """
    for group in groups_of(ranker).values():
        of_tables = {table: rows[table] for table in group.tables if rows.get(table)}
        held = sum(high_share(number, owners) for number in of_tables.values())
        if held > MOST_ROWS:
            kind = "parameter servers" if ranker.num_parameter_servers else "ranks"
            needed = math.ceil(1.001 * sum(of_tables.values()) / MOST_ROWS)
            return Crowded(
                list(of_tables),
                f"too many rows for one process (got {listed(list(of_tables))}: {held:,.0f} on each of {owners} "
                f"{kind}, which may hold {MOST_ROWS:,} of one dim and kind of optimizer)",
                f"use at least {needed} {kind}, or lower capacity.rows, or give one of several tables another dim",
            )
    return None


def refuse_unfit(
    ranker: RankerSpec, available_bytes: int, *, ranks_here: int | None = None, servers_here: int = 0
) -> None:
    """Refuses a job whose tables, filled to their capacities, do not fit this machine.

    Tables without a capacity count as empty: their size is not known beforehand.

    Args:
        ranker: the spec.
        available_bytes: memory of this machine.
        ranks_here: ranks on this machine, one of several; None: all processes are here.
        servers_here: parameter servers on this machine, one of several.

    Raises:
        UserError: it cannot fit.
    """
    capped = {name for name in ranker.table_tags() if ranker.tables[name].capacity}
    holds_rows = ranks_here is None or servers_here or not ranker.num_parameter_servers
    if not capped or not holds_rows:
        return
    rows = {name: 0 for name in ranker.table_tags() if name not in capped}
    made = plan(ranker, rows=rows, ranks=ranker.cluster.ranks)
    needed: float = 0
    if ranks_here is None:
        ranks_here, servers_here = ranker.cluster.ranks, ranker.num_parameter_servers
        needed = ranker.cluster.own_data_workers * PROCESS_BYTES
    needed += ranks_here * made.ranks.high.peak
    processes = [f"{ranks_here} ranks"] if ranks_here else []
    if made.servers is not None and servers_here:
        needed += servers_here * made.servers.high.peak
        processes.append(f"{servers_here} parameter servers")
    if needed > available_bytes:
        raise UserError(
            f"tables: do not fit this machine when filled to their capacity (got {listed(sorted(capped))}: "
            f"{shown_bytes(needed)} for {' and '.join(processes)}, {shown_bytes(available_bytes)} available); lower "
            "capacity.rows or dim, use an optimizer with fewer slots, or a larger machine; `sangam plan` shows what "
            "needs the memory"
        )

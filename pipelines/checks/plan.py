"""The output of `sangam plan`: memory by table, by rank and by parameter server, and whether it fits."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from sangam.pipelines.console import say, table
from sangam.schemas.derived.plan import Plan, Processes
from sangam.schemas.derived.process_memory import ProcessPlan
from sangam.schemas.derived.sizes import DEVIATIONS
from sangam.schemas.errors import UserError
from sangam.schemas.quantities import parse_bytes, shown_bytes, shown_count
from sangam.trainer_module.launch.memory import available_bytes


@dataclass(frozen=True)
class MemoryLimit:
    """The memory that a process may use.

    Attributes:
        source: origin of the limit, in words.
    """

    bytes: int
    source: str


class MemoryLimits(NamedTuple):
    """Memory limits of a rank and of a parameter server; None without any."""

    rank: MemoryLimit
    server: MemoryLimit | None = None


def given(plan: Plan, per_rank: str | None, per_server: str | None) -> MemoryLimits | None:
    """Returns the limits of the options `--memory-per-rank` and `--memory-per-server`; None if they are left out.

    Raises:
        UserError: one is missing, has no effect, or is not a size.
    """
    if plan.servers is None and per_server is not None:
        raise UserError(
            f"--memory-per-server: has no effect: training.sync has no parameter servers (got '{per_server}'); "
            "remove it"
        )
    if per_rank is None and per_server is None:
        return None
    options = {"--memory-per-rank": per_rank} | ({"--memory-per-server": per_server} if plan.servers else {})
    limits = []
    for option, size in options.items():
        if size is None:
            raise UserError(f"{option}: is missing (got only the other of {' and '.join(options)}); give both, or none")
        limits.append(MemoryLimit(parse_bytes(option, size), f"given as {option}"))
    return MemoryLimits(*limits)


def this_machine(plan: Plan, ranks_per_host: int | None = None) -> MemoryLimits:
    """Returns the memory available on this machine, divided by its ranks; servers get the rest.

    Args:
        plan: a plan whose processes are all on this machine.
        ranks_per_host: number of ranks on this machine; each server then has an equal machine of its own.
    """
    available, ranks, servers = available_bytes(), ranks_per_host or plan.ranks.number, plan.servers
    of_rank = MemoryLimit(available // ranks, f"available here for each of {ranks} ranks")
    if servers is None:
        return MemoryLimits(of_rank)
    if ranks_per_host is not None:
        return MemoryLimits(of_rank, MemoryLimit(available, "available here for a server alone"))
    left = max(0, available - math.ceil(ranks * plan.ranks.high.peak)) // servers.number
    return MemoryLimits(of_rank, MemoryLimit(left, f"left here by the ranks for each of {servers.number} servers"))


def document(plan: Plan, limits: MemoryLimits, ranks_per_host: int | None = None) -> dict[str, Any]:
    """Returns the plan as JSON, for programs; all sizes in bytes."""

    def processes(planned: Processes, limit: MemoryLimit | None) -> dict[str, Any]:
        parts = {
            label: {"mean": round(part(planned.mean)), "high": round(part(planned.high))}
            for label, part in _PARTS.items()
        }
        return {
            "number": planned.number,
            "parts": parts,
            "limit": limit.bytes if limit else None,
            "fits": limit is None or planned.high.peak <= limit.bytes,
        }

    return {
        "tables": {
            name: {**dataclasses.asdict(size), "total_bytes": round(size.total_bytes)}
            for name, size in plan.tables.items()
        },
        "ranks": processes(plan.ranks, limits.rank),
        "parameter_servers": processes(plan.servers, limits.server) if plan.servers else None,
        "parameters": {"embedded": plan.parameters_embedded, "dense": plan.parameters_dense, **plan.dense_parts},
        "export_bytes": plan.export_bytes,
        "export_peak_bytes": round(plan.export_peak_bytes),
        "host_peak_bytes": round(ranks_per_host * plan.ranks.high.peak) if ranks_per_host else None,
    }


def print_plan(plan: Plan, limits: MemoryLimits, console: Console, ranks_per_host: int | None = None) -> None:
    """Prints the memory of each table, of a rank and of a parameter server, and the size of the model."""
    if plan.tables:
        console.print(_tables(plan))
        console.print()
    console.print(_processes("ranks", plan.ranks))
    if plan.servers is not None:
        console.print()
        console.print(_processes("parameter servers", plan.servers))
    embedded, dense = shown_count(plan.parameters_embedded), shown_count(plan.parameters_dense)
    lines = [
        f"parameters: {shown_count(plan.parameters_embedded + plan.parameters_dense)} "
        f"(embedded {embedded}, dense {dense}), without the optimizers' slots",
        f"dense parameters: {_dense_parts(plan)}",
        f"export, by one process after training: {shown_bytes(plan.export_bytes)} of keys and embeddings, "
        f"{shown_bytes(plan.export_peak_bytes)} of memory",
    ]
    if ranks_per_host is not None:
        lines.append(
            f"a host of {ranks_per_host} ranks: {shown_bytes(ranks_per_host * plan.ranks.high.peak)} at its peak"
        )
    lines.append(f"memory per rank: {shown_bytes(limits.rank.bytes)} ({limits.rank.source})")
    if limits.server is not None:
        lines.append(f"memory per parameter server: {shown_bytes(limits.server.bytes)} ({limits.server.source})")
    for line in lines:
        say(line, console)


def _dense_parts(plan: Plan) -> str:
    parts = ", ".join(f"{part.replace('_', ' ')} {number:,}" for part, number in plan.dense_parts.items())
    return f"{plan.parameters_dense:,} ({parts})"


def refuse_unfit(plan: Plan, limits: MemoryLimits) -> None:
    """Refuses a plan whose ranks or parameter servers need more memory than they may use.

    Raises:
        UserError: one does not fit.
    """
    _refuse_unfit("rank", plan.ranks, limits.rank)
    if plan.servers is not None and limits.server is not None:
        _refuse_unfit("parameter server", plan.servers, limits.server)


def _refuse_unfit(name: str, processes: Processes, limit: MemoryLimit) -> None:
    high, needed = processes.high, processes.high.peak
    if needed <= limit.bytes:
        return
    hint = "use a smaller model" + (", batch_size_per_rank or staleness" if high.in_flight else "")
    if high.tables:
        # Rows, which take nearly all memory, shrink with the number of processes; the other parts do not.
        fixed = high.process + high.dense + high.counters + high.in_flight
        hint = "use an optimizer with fewer slots, a smaller dim, or evict rows (capacity, expire_after_days)"
        if limit.bytes > 2 * fixed:
            number = round(processes.number * (needed - fixed) / (limit.bytes - fixed) + 1)
            hint = f"use about {number} {name}s of this size; or {hint}"
    raise UserError(
        f"plan: a {name} does not fit (got {shown_bytes(needed)} at its peak, {shown_bytes(limit.bytes)} "
        f"{limit.source}); {hint}"
    )


def _tables(plan: Plan) -> Table:
    shown = table("table", "dim", "optimizer")
    for column in ("rows", "embedding", "slots", "usage", "key", "index", "bytes/row", "total"):
        shown.add_column(column, justify="right")
    for size in plan.tables.values():
        key_bytes = size.stored_bytes - size.embedding_bytes - size.slot_bytes - size.book_bytes
        parts = (size.embedding_bytes, size.slot_bytes, size.book_bytes, key_bytes, size.index_bytes)
        sizes = [f"{part:,.0f}" for part in (*parts, size.row_bytes)]
        total = shown_bytes(size.total_bytes)
        shown.add_row(size.name, str(size.dim), size.optimizer, f"{size.rows:,}", *sizes, total)
    return shown


def _processes(name: str, processes: Processes) -> Table:
    shown = table(f"each of {processes.number} {name}")
    for column in ("mean", f"mean + {DEVIATIONS} sigma"):
        shown.add_column(column, justify="right")
    mean, high = processes.mean, processes.high
    if high.tables:
        shown.add_row("rows", f"{mean.rows:,.0f}", f"{high.rows:,.0f}")
    for label, part in _PARTS.items():
        if part(high):
            shown.add_row(label, shown_bytes(part(mean)), shown_bytes(part(high)))
    return shown


_PARTS: dict[str, Callable[[ProcessPlan], float]] = {
    "rows, keys, index": lambda process: process.tables,
    "admission counters": lambda process: process.counters,
    "batches in flight": lambda process: process.in_flight,
    "dense weights and optimizer": lambda process: process.dense,
    "TensorFlow itself": lambda process: process.process,
    "resident": lambda process: process.held,
    "copy for checkpoints": lambda process: process.checkpoint,
    "copy while the largest group grows": lambda process: process.growth,
    "peak": lambda process: process.peak,
}
"""Returns the parts in the order of the table, without zeros."""

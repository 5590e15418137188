"""What `sangam plan` prints: memory by table and by rank, and whether it fits."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from pipelines.console import say, table
from schemas.derived.plan import Plan, RankPlan
from schemas.derived.sizes import DEVIATIONS
from schemas.errors import UserError
from schemas.quantities import shown_bytes, shown_count
from trainer_module.launch.memory import available_bytes


@dataclass(frozen=True)
class MemoryLimit:
    """The memory that each rank may use.

    Attributes:
        source: where the number comes from, in words.
    """

    per_rank_bytes: int
    source: str


def this_machine(ranks: int) -> MemoryLimit:
    """Returns the memory available on this machine, divided by the ranks."""
    return MemoryLimit(available_bytes() // ranks, f"available here for each of {ranks} ranks")


def print_plan(plan: Plan, limit: MemoryLimit, console: Console, ranks_per_host: int | None = None) -> None:
    """Prints the memory of each table and of a rank, and the size of the model."""
    if plan.tables:
        console.print(_tables(plan))
        console.print()
    console.print(_ranks(plan))
    embedded, dense = shown_count(plan.parameters_embedded), shown_count(plan.parameters_dense)
    lines = [
        f"parameters: {shown_count(plan.parameters_embedded + plan.parameters_dense)} "
        f"(embedded {embedded}, dense {dense}), without the optimizers' slots",
        f"dense parameters: {_dense_parts(plan)}",
        f"export, by one process after training: {shown_bytes(plan.export_bytes)} of keys and embeddings, "
        f"{shown_bytes(plan.export_peak_bytes)} of memory",
    ]
    if ranks_per_host is not None:
        lines.append(f"a host of {ranks_per_host} ranks: {shown_bytes(ranks_per_host * plan.high.peak)} at its peak")
    lines.append(f"memory per rank: {shown_bytes(limit.per_rank_bytes)} ({limit.source})")
    for line in lines:
        say(line, console)


def _dense_parts(plan: Plan) -> str:
    parts = ", ".join(f"{part.replace('_', ' ')} {number:,}" for part, number in plan.dense_parts.items())
    return f"{plan.parameters_dense:,} ({parts})"


def refuse_unfit(plan: Plan, limit: MemoryLimit) -> None:
    """Refuses a plan whose ranks need more memory than they may use.

    Raises:
        UserError: a rank does not fit.
    """
    needed = plan.high.peak
    if needed <= limit.per_rank_bytes:
        return
    # Rows, and with them nearly everything, shrink with the number of ranks; the rest does not.
    fixed = plan.high.process + plan.high.dense + plan.high.counters
    hint = "use an optimizer with fewer slots, a smaller dim, or evict rows (capacity, expire_after_days)"
    if limit.per_rank_bytes > 2 * fixed:
        ranks = round(plan.ranks * (needed - fixed) / (limit.per_rank_bytes - fixed) + 1)
        hint = f"use about {ranks} ranks of this size; or {hint}"
    raise UserError(
        f"plan: a rank does not fit (got {shown_bytes(needed)} at its peak, {shown_bytes(limit.per_rank_bytes)} "
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


def _ranks(plan: Plan) -> Table:
    shown = table(f"each of {plan.ranks} ranks")
    for column in ("mean", f"mean + {DEVIATIONS} sigma"):
        shown.add_column(column, justify="right")
    shown.add_row("rows", f"{plan.mean.rows:,.0f}", f"{plan.high.rows:,.0f}")
    for label, mean, high in zip(_LABELS, _parts(plan.mean), _parts(plan.high), strict=True):
        shown.add_row(label, shown_bytes(mean), shown_bytes(high))
    return shown


_LABELS = (
    "rows, keys, index",
    "admission counters",
    "dense weights and optimizer",
    "TensorFlow itself",
    "resident",
    "copy while a checkpoint is written",
    "copy while the largest group grows",
    "peak",
)


def _parts(rank: RankPlan) -> tuple[float, ...]:
    return (
        rank.tables,
        rank.counters,
        rank.dense,
        rank.process,
        rank.held,
        rank.checkpoint,
        rank.growth,
        rank.peak,
    )

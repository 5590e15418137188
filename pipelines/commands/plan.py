"""The command `sangam plan`."""

from typing import Annotated

import typer

from pipelines.commands.options import SpecArgument
from pipelines.console import say, terminal

EPILOG = "Example: sangam plan pipelines/specs/short_video.yaml --rows users=80e6,posts=55e6 --ranks 8"


def plan(
    spec: SpecArgument,
    rows: Annotated[
        str, typer.Option(help="Rows by table, as users=80e6,posts=55M. A table that is not named is planned full.")
    ] = "",
    ranks: Annotated[
        int | None, typer.Option(min=1, help="Number of ranks. [default: cluster.ranks of the spec]")
    ] = None,
    memory_per_rank: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Memory of a rank, as 64GB. [default: this machine's free memory, shared by the ranks]"
        ),
    ] = None,
    ranks_per_host: Annotated[
        int | None, typer.Option(min=1, help="Also print the memory that a host of this many ranks needs.")
    ] = None,
) -> None:
    """Prints the memory that a ranker needs, by table and by rank. Exits with 2 if it does not fit."""
    from pipelines.checks.plan import MemoryLimit, print_plan, refuse_unfit, this_machine
    from schemas.derived.plan import plan as plan_of
    from schemas.loading import load_spec
    from schemas.quantities import parse_bytes, parse_rows

    loaded = load_spec(spec)
    made = plan_of(loaded, rows=parse_rows("--rows", rows), ranks=ranks or loaded.cluster.ranks)
    if memory_per_rank is None:
        limit = this_machine(ranks_per_host or made.ranks)
    else:
        limit = MemoryLimit(parse_bytes("--memory-per-rank", memory_per_rank), "given as --memory-per-rank")
    print_plan(made, limit, terminal(), ranks_per_host)
    refuse_unfit(made, limit)
    say("it fits")

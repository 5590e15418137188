"""The command `sangam load`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json, quieten, say, table, terminal
from sangam.schemas.contracts.exit_codes import ExitCode

if TYPE_CHECKING:
    from sangam.components.load.results import Result

EPILOG = (
    "Example: sangam load 127.0.0.1:8500 --rate 300 --candidates 200 --once user_id,hour\n\n"
    "Exit codes: 0 some requests were answered; 1 none was; 2 the address or an option is wrong."
)


def load(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The server: host:port of gRPC, or http://host:port of REST.")
    ],
    rate: Annotated[float, typer.Option(min=0.01, help="Requests a second.")],
    seconds: Annotated[float, typer.Option(min=0.1, help="Duration of the load.")] = 10.0,
    candidates: Annotated[
        int | None, typer.Option(min=1, help="Candidates of a request. [default: 200, or as in --requests]")
    ] = None,
    once: Annotated[
        str, typer.Option(metavar="COLUMN,...", help="Columns of the user: one row for all candidates.")
    ] = "",
    requests: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Requests to send, in turn: JSON Lines of bodies of REST, with inputs; or a version's warm-up "
            "requests. [default: random values]",
        ),
    ] = None,
    deadline_ms: Annotated[float, typer.Option(min=1, help="Time from a request to its answer.")] = 1000.0,
    connections: Annotated[
        int, typer.Option(min=1, max=4096, help="Connections; over REST a request waits for a free one.")
    ] = 64,
    evenly: Annotated[bool, typer.Option("--evenly", help="Send at equal gaps, not by a Poisson process.")] = False,
    name: Annotated[str, typer.Option(help="Name of the model. [default: the served one's]")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the values and the times.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Sends requests to a server at a rate, whether or not it keeps up, and prints the times of its answers.

    A request's time counts from when it was due. Values are random, and valid for the signature `rank` of the model.
    """
    from sangam.components.load.generator import Load, run

    columns = tuple(column for column in once.split(",") if column)
    given = Load(
        address=address,
        rate=rate,
        seconds=seconds,
        deadline_s=deadline_ms / 1e3,
        connections=connections,
        candidates=candidates,
        once=columns,
        requests=requests,
        name=name,
        evenly=evenly,
        seed=seed,
    )
    quieten()
    found = run(given)
    if as_json:
        print_json(asdict(found))
    else:
        _show(found)
    if not found.answered:
        raise typer.Exit(ExitCode.FAILED)


def _show(found: "Result") -> None:
    shown = table("sent", "answered", "shed", "failed", "p50 ms", "p90 ms", "p99 ms", "max ms", "candidates/s")
    times = (
        "-" if each is None else f"{each:.2f}" for each in (found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms)
    )
    counts = (f"{each:,}" for each in (found.sent, found.answered, found.shed, found.failed))
    shown.add_row(*counts, *times, f"{found.candidates_per_s:,.0f}")
    terminal().print(shown)
    if found.answered < found.sent:
        say("codes: " + ", ".join(f"{code} {count:,}" for code, count in found.codes.items()))
    if found.late_p99_ms is not None and found.p99_ms is not None and found.late_p99_ms > 0.1 * found.p99_ms:
        say(
            f"this process sent requests late (p99 {found.late_p99_ms:.2f} ms), which their times include: give it a "
            "core of its own, or a lower rate"
        )

"""The commands `sangam schedule run|print`."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from components.alerts import target_of
from pipelines.schedule import units
from pipelines.schedule.daily import due, run_daily
from pipelines.schedule.environment import read_environment
from pipelines.times import check_time, machine_time, utc_now
from schemas.errors import UserError
from schemas.loading import load_spec
from schemas.spec import Spec

app = typer.Typer(no_args_is_help=True, help="Runs a spec for yesterday, and prints the timer that does it every day.")

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file.")]
Data = Annotated[Path, typer.Option(help="Folder of the logs; the spec's file patterns are relative to it.")]
Root = Annotated[Path, typer.Option(help="Folder for everything the runs leave; created where it does not exist.")]
Environment = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Lines NAME=VALUE for the runs, such as address and key of alerts; only its owner may read it.",
    ),
]


@app.command(
    epilog="Example: sangam schedule run pipelines/specs/short_video.yaml --data logs --root runs\n\n"
    "Exit codes: those of `sangam run`, 4 if another run is using the root; 128 and the signal's number if the run was "
    "killed."
)
def run(spec: SpecArgument, data: Data, root: Root, environment: Environment = None) -> None:
    """Runs a spec for yesterday (UTC), as a timer does: with a log of its own in ROOT/schedule/NAME."""
    if environment:
        os.environ.update(read_environment(environment))
    loaded, now = load_spec(spec), utc_now()
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 200)
    raise typer.Exit(run_daily(due(spec, loaded, data, root, now), now, console))


@app.command(
    name="print",
    epilog="Example: sangam schedule print pipelines/specs/short_video.yaml --at 02:30 --data logs --root runs\n\n"
    "Exit codes: 0 printed; 2 something given is wrong.",
)
def print_(
    spec: SpecArgument,
    at: Annotated[str, typer.Option(metavar="HH:MM", help="Time of day, UTC. A run is for the day before (UTC).")],
    data: Data,
    root: Root,
    environment: Environment = None,
    format_: Annotated[Literal["systemd", "cron"], typer.Option("--format", help="Of the timer.")] = "systemd",
) -> None:
    """Prints the systemd timer, or the line of cron, that runs a spec once a day. You install it.

    The spec is read again for every run. Missed days are left to `sangam backfill`.
    """
    at, loaded = check_time(at), load_spec(spec)
    _check_environment(loaded, environment)
    command = units.run_command(spec, data, root, environment)
    if format_ == "systemd":
        text = units.systemd_text(loaded.name, at, command)
    else:
        text = units.cron_text(loaded.name, at, command, machine_time(at, utc_now().year))
    print(text, end="")


def _check_environment(spec: Spec, environment: Path | None) -> None:
    """Finds now what would make every run fail at night."""
    variables = read_environment(environment) if environment else {}
    if spec.alerts is None:
        return
    if environment is None:
        raise UserError(
            "--environment: is missing; the spec declares alerts, and a timer sees none of your shell's variables: "
            f"give a file with {spec.alerts.url_env}=... and {spec.alerts.key_env}=..., readable by you alone"
        )
    target_of(spec.alerts, variables)

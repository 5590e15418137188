"""The commands `sangam schedule run` and `sangam schedule print`."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from sangam.components.alerts import target_of
from sangam.pipelines.commands.options import (
    DataOption,
    JsonOption,
    LogFormatOption,
    RootOption,
    SpecArgument,
    choose_log_format,
)
from sangam.pipelines.console import print_json, terminal
from sangam.pipelines.schedule import units
from sangam.pipelines.schedule.daily import due, outcome, run_daily
from sangam.pipelines.schedule.environment import read_environment
from sangam.pipelines.times import check_time, machine_time, utc_now
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec

app = typer.Typer(no_args_is_help=True, help="Runs a spec for yesterday, or prints a timer that does so every day.")

EnvironmentOption = Annotated[
    Path | None,
    typer.Option(
        "--environment",
        metavar="FILE",
        help="Variables of the run, lines NAME=VALUE, such as the address and key of alerts. Only you may read it.",
    ),
]


@app.command(
    epilog="Example: sangam schedule run pipelines/specs/short_video.yaml --data logs --root runs\n\n"
    "Exit codes: those of `sangam run`; 128 plus the signal's number if the run was killed."
)
def run(
    spec: SpecArgument,
    data: DataOption,
    root: RootOption,
    environment: EnvironmentOption = None,
    log_format: LogFormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Runs a spec for yesterday (UTC), as a timer does. Its log is in ROOT/schedule/NAME."""
    choose_log_format(log_format)
    if environment:
        os.environ.update(read_environment(environment))
    loaded, now = load_spec(spec), utc_now()
    daily = due(spec, loaded, data, root, now)
    code = run_daily(daily, now, terminal(sys.stderr))
    if as_json:
        print_json({"name": loaded.name, "date": daily.date, "outcome": outcome(code), "exit_code": code})
    raise typer.Exit(code)


@app.command(
    name="print",
    epilog="Example: sangam schedule print pipelines/specs/short_video.yaml --at 02:30 --data logs --root runs\n\n"
    "Exit codes: 0 printed; 2 something given is wrong.",
)
def print_(
    spec: SpecArgument,
    at: Annotated[str, typer.Option(metavar="HH:MM", help="Time of day, UTC. A run is for the day before (UTC).")],
    data: DataOption,
    root: RootOption,
    environment: EnvironmentOption = None,
    format_: Annotated[Literal["systemd", "cron"], typer.Option("--format", help="What starts the run.")] = "systemd",
    as_json: JsonOption = False,
) -> None:
    """Prints the systemd timer, or the cron line, that runs a spec once a day, for you to install.

    The spec is read again for every run. Missed days are left to `sangam backfill`.
    """
    at, loaded = check_time(at), load_spec(spec)
    _check_environment(loaded, environment)
    command = units.run_command(spec, data, root, environment)
    if format_ == "systemd":
        text = units.systemd_text(loaded.name, at, command)
    else:
        text = units.cron_text(loaded.name, at, command, machine_time(at, utc_now().year))
    if as_json:
        print_json({"name": loaded.name, "at": at, "format": format_, "text": text})
    else:
        print(text, end="")


def _check_environment(spec: Spec, environment: Path | None) -> None:
    """Refuses now what would make every scheduled run fail."""
    variables = read_environment(environment) if environment else {}
    if spec.alerts is None:
        return
    if environment is None:
        raise UserError(
            "--environment: is missing; the spec declares alerts, and a timer sees none of your shell's variables: "
            f"give a file with {' and '.join(f'{name}=...' for name in spec.alerts.variables)}, readable by you alone"
        )
    target_of(spec.alerts, variables)

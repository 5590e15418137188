"""The command `sangam demo`."""

import contextlib
import datetime
import sys
from pathlib import Path
from typing import Annotated

import typer

import sangam
from sangam.pipelines.commands.options import JsonOption
from sangam.schemas.contracts.exit_codes import ExitCode

EPILOG = (
    "Example: sangam demo demo --ui\n\n"
    "Exit codes: those of sangam run: 0 the model is blessed; 1 the run failed; 2 the folder cannot be used."
)
_FIRST_DAY, _DAYS, _ROWS_PER_DAY = datetime.date(2024, 3, 1), 7, 20_000


def demo(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the logs and everything else.")] = Path(
        "demo"
    ),
    pages: Annotated[bool, typer.Option("--ui", help="Then show its pages in the browser, until Ctrl-C.")] = False,
    host: Annotated[
        str, typer.Option(help="With --ui: address to listen on. Any address but loopback requires a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --ui: port; 0: any free one.")] = 8088,
    as_json: JsonOption = False,
) -> None:
    """Generates a week of logs of a short-video feed, and runs the whole pipeline on them: a minute on 2 cores."""
    from sangam.pipelines.commands.generate import generate
    from sangam.pipelines.commands.run import run
    from sangam.pipelines.commands.ui import ui

    logs = folder / "logs"
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        generate(logs, first_day=str(_FIRST_DAY), days=_DAYS, rows_per_day=_ROWS_PER_DAY)
    last = _FIRST_DAY + datetime.timedelta(days=_DAYS - 1)
    spec = Path(sangam.__file__).parent / "pipelines" / "specs" / "short_video.yaml"
    try:
        run(spec, str(logs), folder / "root", date=str(last), as_json=as_json)
    except typer.Exit as ended:
        if ended.exit_code != ExitCode.DONE or not pages:
            raise
    ui(folder / "root", host, port, as_json=as_json)

"""The command `sangam demo`."""

import datetime
from pathlib import Path
from typing import Annotated

import typer

import sangam
from sangam.pipelines.commands.options import JsonOption

EPILOG = (
    "Example: sangam demo demo && sangam ui demo/root\n\n"
    "Exit codes: those of sangam run: 0 the model is blessed; 1 the run failed; 2 the folder cannot be used."
)
_FIRST_DAY, _DAYS, _ROWS_PER_DAY = datetime.date(2024, 3, 1), 7, 20_000


def demo(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the logs and everything else.")] = Path(
        "demo"
    ),
    as_json: JsonOption = False,
) -> None:
    """Generates a week of logs of a short-video feed, and runs the whole pipeline on them: a minute on 2 cores."""
    from sangam.pipelines.commands.generate import generate
    from sangam.pipelines.commands.run import run

    logs = folder / "logs"
    generate(logs, first_day=str(_FIRST_DAY), days=_DAYS, rows_per_day=_ROWS_PER_DAY)
    last = _FIRST_DAY + datetime.timedelta(days=_DAYS - 1)
    spec = Path(sangam.__file__).parent / "pipelines" / "specs" / "short_video.yaml"
    run(spec, logs, folder / "root", date=str(last), as_json=as_json)

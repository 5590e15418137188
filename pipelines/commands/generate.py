"""The command `sangam generate`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json, quieten, say, terminal
from sangam.schemas.errors import UserError
from sangam.schemas.spec.patterns import FileFormat

EPILOG = "Example: sangam generate --output demo/logs --first-day 2024-03-01 --days 7 --rows-per-day 20000"


def generate(
    output: Annotated[Path, typer.Option(help="Folder for the logs; each day gets a folder YYYY-MM-DD in it.")],
    first_day: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="The first day.")] = "2024-03-01",
    days: Annotated[int, typer.Option(min=1, help="Number of days.")] = 7,
    rows_per_day: Annotated[int, typer.Option(min=1, help="Rows per day.")] = 20_000,
    users: Annotated[int, typer.Option(min=1, help="Users on the first day; new ones join every day.")] = 2_000,
    posts: Annotated[int, typer.Option(min=1, help="Posts on the first day; new ones appear every day.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same logs.")] = 1,
    drift: Annotated[
        float,
        typer.Option(
            metavar="RATE",
            help="How fast tastes and trends move: after 1/RATE days a user's taste has a correlation of 1/e with what "
            "it was; trends of posts and hashtags move four times as fast, and posts appear all day. 0: nothing moves.",
        ),
    ] = 0.0,
    format_: Annotated[FileFormat, typer.Option("--format", help="File format.")] = "parquet",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace days that hold other logs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Generates seeded logs of a short-video feed, for the spec pipelines/specs/short_video.yaml."""
    from sangam.schemas.derived.days import parse_day

    try:
        first = parse_day(first_day)
    except ValueError as error:
        raise UserError(f"--first-day: {error}") from None
    quieten()
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from sangam.pipelines.synthetic import generate as generate_logs

    columns = (TextColumn("generating"), BarColumn(), MofNCompleteColumn(), TextColumn("days"))
    with Progress(*columns, console=terminal(sys.stderr), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("days", total=days)
        folders = generate_logs(
            output,
            first_day=first,
            num_days=days,
            rows_per_day=rows_per_day,
            num_users=users,
            num_posts=posts,
            seed=seed,
            drift=drift,
            file_format=format_,
            overwrite=overwrite,
            progress=lambda day, rows: bar.advance(task),
        )
    if as_json:
        print_json({"folders": [str(folder) for folder in folders], "rows_per_day": rows_per_day})
    else:
        say(f"wrote {days} days of {rows_per_day} rows: {folders[0]} to {folders[-1].name}")

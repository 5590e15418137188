"""The command `sangam report`."""

import datetime
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json, say
from sangam.schemas.errors import UserError

EPILOG = (
    "Example: sangam report demo/root --last 30d\n\n"
    "Exit codes: 0 the page is written; 2 the root or an option is wrong."
)
_LAST = re.compile(r"([1-9]\d{0,4})d")


def report(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Pipeline root of local runs.")],
    last: Annotated[str, typer.Option(metavar="DAYS", help="Days up to the newest run's, for example 30d.")] = "30d",
    name: Annotated[str | None, typer.Option(help="Only this ranker.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page. [default: report.html in ROOT]", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draws all runs of a root on one page: AUC by task and day with the gates, what was pushed, refused and rolled
    back, and seconds by step."""
    from sangam.components.page.overview import newest_day, overview
    from sangam.schemas.contracts.root import PAGE_FILE, Root, RunFolder
    from sangam.schemas.host.files import write_whole

    days = _LAST.fullmatch(last)
    if days is None:
        raise UserError(f"--last: is no number of days (got '{last}'); for example 30d")
    place = Root(str(root))
    newest = newest_day(place) if place.runs.is_dir() else None
    if newest is None:
        raise UserError(f"{root}: has no finished run (got no {place.runs}/*/summary.json); give the --root of a run")
    first = newest - datetime.timedelta(days=int(days[1]) - 1)
    page = output or root / PAGE_FILE

    def page_of(run: RunFolder) -> str | None:
        return os.path.relpath(run.page, page.absolute().parent) if run.page.is_file() else None

    number, text = overview(place, page_of, first=first, ranker=name)
    write_whole(page, text)
    if as_json:
        print_json({"page": str(page), "runs": number, "since": str(first)})
    else:
        say(f"{page}: {number} run{'s' if number != 1 else ''} since {first}")

"""The command `sangam rollback`: takes versions out of service, or puts one back."""

import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from components.registry import versions as folders
from schemas.errors import UserError

EPILOG = (
    'Example: sangam rollback ROOT/serving/short_video --because "likes of new users fell by a tenth"\n\n'
    "Exit codes: 0 done; 2 the command was given something wrong, or there is no older version."
)


def rollback(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of versions, push.path below the root.")],
    because: Annotated[str, typer.Option(help="The reason, kept beside the withdrawn version.")] = "",
    to: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Withdraw all that are newer. Left out: only the newest.")
    ] = None,
    restore: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Put a withdrawn version back instead.")
    ] = None,
) -> None:
    """Withdraws the newest version, so that the one before it is served again.

    It is moved to DIR/withdrawn in one step, where neither `sangam serve` nor TensorFlow Serving looks; both follow
    when they next look at the folder. It is never pushed again under its number.
    """
    if restore is not None:
        if because or to is not None:
            raise UserError("--restore: goes with neither --because nor --to (got both); give it alone")
        folders.restore(directory, restore)
        _say(f"restored {restore}; {_newest(directory)}")
        return
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    withdrawn = folders.withdraw(directory, because=because, now=now, to=to)
    _say(f"withdrew {', '.join(withdrawn)}; {_newest(directory)}")
    _say(f"to undo: sangam rollback {directory} --restore {withdrawn[-1]}")


def _newest(directory: Path) -> str:
    return f"the newest is {folders.versions(directory)[-1]}"


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)

"""The command `sangam rollback`."""

import getpass
from pathlib import Path
from typing import Annotated

import typer

from components.registry import holds
from components.registry import versions as registry
from pipelines.console import say
from pipelines.times import utc_now
from schemas.contracts import deltas
from schemas.errors import UserError

EPILOG = (
    'Example: sangam rollback ROOT/serving/short_video --because "likes of new users fell by a tenth"\n\n'
    "Exit codes: 0 done; 2 an option is wrong, or there is no older version."
)


def rollback(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of versions: push.path below the root.")],
    because: Annotated[str, typer.Option(help="The reason; it is kept beside the withdrawn version.")] = "",
    to: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION[+DELTA]",
            help="Withdraw every version newer than this one; or go back to a delta of it. [default: only the newest]",
        ),
    ] = None,
    restore: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Put a withdrawn version back instead.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Let deltas of this version go out again instead.")
    ] = None,
) -> None:
    """Withdraws the newest version, so that the one before it is served again.

    The version is moved to DIR/withdrawn in one step, where neither `sangam serve` nor TensorFlow Serving looks; both
    notice at their next poll. Its number is never pushed again. With VERSION+DELTA, servers go back to that delta, and
    online training goes on without publishing until --release.
    """
    if release is not None:
        if because or to is not None or restore is not None:
            raise UserError("--release: goes with no other option (got several); give it alone")
        held = holds.release(directory, release)
        say(f"released {release}, which was held at delta {held.number}: {held.because}")
        return
    if restore is not None:
        if because or to is not None:
            raise UserError("--restore: goes with neither --because nor --to (got both); give it alone")
        registry.restore(directory, restore)
        say(f"restored {restore}; {_newest(directory)}")
        return
    now = utc_now().replace(microsecond=0)
    if to is not None and "+" in to:
        gone = holds.hold(directory, to=to, because=because, by=getpass.getuser(), now=now)
        say(f"held {to}" + (f"; withdrew {', '.join(gone)}, which include later deltas" if gone else ""))
        say(f"to undo: sangam rollback {directory} --release {to.partition('+')[0]}")
        return
    withdrawn = registry.withdraw(directory, because=because, now=now, to=to)
    say(f"withdrew {', '.join(withdrawn)}; {_newest(directory)}")
    say(f"to undo: sangam rollback {directory} --restore {withdrawn[-1]}")


def _newest(directory: Path) -> str:
    newest = registry.versions(directory)[-1]
    place = deltas.lineage_of(directory / newest)
    numbers = deltas.published(directory, place.lineage) if place is not None else []
    hold = deltas.read_hold(directory, place.lineage) if place is not None else None
    if place is None or hold is not None or not numbers or numbers[-1] <= place.number:
        return f"the newest is {newest}"
    return (
        f"the newest is {newest}, to which servers apply all deltas up to {numbers[-1]}; to go back to an earlier one: "
        f"--to {place.lineage}+NUMBER"
    )

"""The command `sangam rollback`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.components.object_stores import is_stored
from sangam.components.registry import holds
from sangam.components.registry import versions as registry
from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.commands.stored_rollback import on_store
from sangam.pipelines.console import print_json, say
from sangam.pipelines.times import utc_now
from sangam.schemas.contracts import deltas
from sangam.schemas.errors import UserError
from sangam.schemas.host.user import current_user

EPILOG = (
    'Example: sangam rollback ROOT/serving/short_video --because "likes of new users fell by a tenth"\n\n'
    "Exit codes: 0 done; 2 an option is wrong, or there is no older version; 4 another process changes the versions."
)


def rollback(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Folder of versions: push.path below the root, or its address on an object store."
        ),
    ],
    because: Annotated[str, typer.Option(help="The reason; it is kept beside the withdrawn version.")] = "",
    to: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION[+DELTA]|none",
            help="Withdraw every version newer than this one; or go back to a delta of it; none: withdraw all, and "
            "have nothing served. [default: only the newest]",
        ),
    ] = None,
    restore: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Put a withdrawn version back instead.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Let deltas of this version go out again instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Withdraws the newest version, so that the one before it is served again.

    The version is moved to DIR/withdrawn in one step, where neither `sangam serve` nor TensorFlow Serving looks; both
    notice at their next poll. Its number is never pushed again. With VERSION+DELTA, servers go back to that delta, and
    online training goes on without publishing until --release; with none, nothing is served until the next push.
    """
    directory = Path(folder)
    done: dict[str, object]
    if is_stored(folder):
        told, done, newest = on_store(folder, because=because, to=to, restore=restore, release=release)
    elif release is not None:
        if because or to is not None or restore is not None:
            raise UserError("--release: cannot be combined with other options (got several); give it alone")
        held = holds.release(directory, release)
        told = [f"released {release}, which was held at delta {held.number}: {held.because}"]
        done = {"released": release}
    elif restore is not None:
        if because or to is not None:
            raise UserError("--restore: cannot be combined with --because or --to (got both); give it alone")
        registry.restore(directory, restore)
        told, done = [f"restored {restore}; {newest_told(directory)}"], {"restored": restore}
    else:
        told, done = _back(directory, because, to)
    if as_json:
        newest = newest if is_stored(folder) else _last(directory)
        print_json({"withdrawn": [], "held": None, "restored": None, "released": None, **done, "newest": newest})
        return
    for line in told:
        say(line)


def _back(directory: Path, because: str, to: str | None) -> tuple[list[str], dict[str, object]]:
    """Goes back to a version or a delta; returns what to tell, for people and for programs."""
    now = utc_now().replace(microsecond=0)
    if to is not None and "+" in to:
        gone = holds.hold(directory, to=to, because=because, by=current_user(), now=now)
        return [
            f"held {to}" + (f"; withdrew {', '.join(gone)}, which include later deltas" if gone else ""),
            f"to undo: sangam rollback {directory} --release {to.partition('+')[0]}",
        ], {"held": to, "withdrawn": gone}
    withdrawn = registry.withdraw(directory, because=because, now=now, to=to)
    return [
        f"withdrew {', '.join(withdrawn)}; {newest_told(directory)}",
        f"to undo: sangam rollback {directory} --restore {withdrawn[-1]}",
    ], {"withdrawn": withdrawn}


def _last(directory: Path) -> str | None:
    available = registry.versions(directory)
    return available[-1] if available else None


def newest_told(directory: Path) -> str:
    """Returns which version is the newest, and which deltas servers apply to it."""
    newest = _last(directory)
    if newest is None:
        return "no version is left: servers refuse requests until one is pushed or restored"
    place = deltas.lineage_of(directory / newest)
    numbers = deltas.published(directory, place.lineage) if place is not None else []
    hold = deltas.read_hold(directory, place.lineage) if place is not None else None
    if place is None or hold is not None or not numbers or numbers[-1] <= place.number:
        return f"the newest is {newest}"
    last = deltas.reachable(numbers, place.number)
    if last == place.number:
        return (
            f"the newest is {newest}, at which servers stay until the next full version: the deltas after it are gone "
            f"up to {numbers[0] - 1}"
        )
    return (
        f"the newest is {newest}, to which servers apply all deltas up to {last}; to go back to an earlier one: "
        f"--to {place.lineage}+NUMBER"
    )

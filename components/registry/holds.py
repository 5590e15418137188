"""Holds a lineage at an earlier delta, and releases it. Loads without TensorFlow and TFX."""

import datetime
from pathlib import Path

from sangam.components.registry import versions
from sangam.schemas.contracts import deltas
from sangam.schemas.errors import UserError


def hold(folder: Path, *, to: str, because: str, by: str, now: datetime.datetime) -> list[str]:
    """Holds a lineage at a delta: servers go back to it, and the online training publishes nothing until `release`.

    Args:
        folder: folder of versions.
        to: VERSION+NUMBER, the lineage and the delta.
        because: the reason.
        by: the person.
        now: present time, UTC.

    Returns:
        The full versions that were withdrawn because they include later deltas, lowest first.

    Raises:
        UserError: there is no such delta, or no earlier state.
    """
    lineage, number = _parsed(to)
    if not because.strip():
        raise UserError(f"--because: is empty (got '{because}'); give the reason, which is recorded with the hold")
    numbers = deltas.published(folder, lineage)
    if not numbers or not 0 <= number <= numbers[-1]:
        known = f"0 to {numbers[-1]}" if numbers else "none"
        raise UserError(f"--to: no such delta of version {lineage} in {folder} (got {number}); there are: {known}")
    places = {version: deltas.lineage_of(folder / version) for version in versions.versions(folder)}
    if not places:
        raise UserError(
            f"{folder}: all versions are withdrawn (got --to {to}); restore one first: sangam rollback {folder} "
            f"--restore {lineage}"
        )
    newest = list(places)[-1]
    if (place := places[newest]) is None or place.lineage != lineage:
        raise UserError(
            f"--to: version {newest} is newer, not based on {lineage} (got {to}); withdraw it first: sangam rollback "
            f"{folder} --because REASON"
        )
    earlier = [version for version, at in places.items() if at and at.lineage == lineage and at.number <= number]
    if not earlier or any(needed not in numbers for needed in _needed(places[earlier[-1]], number)):
        raise UserError(
            f"--to: the deltas up to {number} are no longer all there (got {to}); go back to a version: --to VERSION"
        )
    deltas.write_hold(folder, lineage, deltas.Hold(number=number, because=because, by=by, at=now))
    if earlier[-1] == newest:
        return []
    try:
        return versions.withdraw(folder, because=because, now=now, to=earlier[-1])
    except BaseException:
        deltas.release(folder, lineage)  # Otherwise no delta would be published, and servers would keep their state.
        raise


def release(folder: Path, lineage: str) -> deltas.Hold:
    """Ends a hold, and returns it: the online training publishes deltas again.

    Raises:
        UserError: the lineage is not held.
    """
    found = deltas.read_hold(folder, lineage)
    if found is None:
        held = sorted(path.parent.name for path in folder.glob(f"{deltas.FOLDER}/*/{deltas.HOLD_FILE}"))
        raise UserError(f"--release: is not held in {folder} (got {lineage}); held are: {', '.join(held) or 'none'}")
    deltas.release(folder, lineage)
    return found


def _needed(place: deltas.Lineage | None, number: int) -> range:
    """Returns the deltas from a version to a number."""
    assert place is not None
    return range(place.number + 1, number + 1)


def _parsed(to: str) -> tuple[str, int]:
    lineage, _, number = to.partition("+")
    if not (lineage.isdecimal() and number.isdecimal()):
        raise UserError(f"--to: is neither a version nor VERSION+DELTA (got {to}); for example 20240307001+12")
    return lineage, int(number)

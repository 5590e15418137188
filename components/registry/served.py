"""What servers load: the newest version in the folder, or at the address, of a ranker's last push."""

from pathlib import Path
from typing import NamedTuple

from sangam.components.object_stores import is_stored
from sangam.components.registry import stored_versions, versions
from sangam.components.registry.record import read_records


class Served(NamedTuple):
    """A folder of versions, or the address of one.

    Attributes:
        folder: path or address.
        newest: number of the newest version; None: every version was withdrawn.
    """

    folder: str
    newest: str | None


def served(root: Path, ranker: str) -> Served | None:
    """Returns where a ranker was pushed last; None: nowhere.

    Raises:
        UserError: the registry is damaged, or the store cannot be reached.
    """
    pushed = [model.pushed for model in read_records(root, ranker) if model.pushed]
    if not pushed:
        return None
    if is_stored(pushed[-1]):
        folder = pushed[-1].rpartition("/")[0]
        there = stored_versions.versions(folder)
    else:
        place = (root / pushed[-1]).parent
        folder, there = str(place), versions.versions(place)
    return Served(folder, there[-1] if there else None)

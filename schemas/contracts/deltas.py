"""Deltas: changes of an online training since a version was pushed, for servers of that version.

`<versions>/deltas/<lineage>/<number, 8 digits, from 1>/` holds `.npy` files and `delta.json`, written last: a folder
without it does not exist for readers. A lineage is named by the version that it starts from, which may wait in
`<versions>/shadow/`: its deltas lie where they lie once it is live. A delta holds current values, so applying it again
changes nothing: first remove, then upsert, then replace the dense weights.

| file | array |
|---|---|
| `<group>.<process>.keys.npy` | int64 [n]: rows made or updated |
| `<group>.<process>.rows.npy` | float32 [n, dim]: their embeddings |
| `<group>.<process>.removed.npy` | int64 [m]: keys whose rows were removed |
| `dense.npy` | float32 [size]: all dense weights |
"""

import datetime
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal

from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.contracts.segments import FileRecord, records
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import refuse_links, remove_folder, sync, write_whole
from sangam.schemas.parts.base import FrozenModel

FORMAT: Literal[1] = 1
FOLDER, DELTA_FILE, HOLD_FILE, DENSE_FILE = "deltas", "delta.json", "hold.json", "dense.npy"
LINEAGE_FILE = "assets.extra/lineage.json"
"""File in a full version made by online training."""
SHADOW, CARD_FILE = "shadow", "MODEL_CARD.md"
"""Folder of the versions that wait, beside those that are live; file of a version that tells its promotion."""
_VERSION_MANIFEST = "manifest.json"
_NUMBER = re.compile(r"\d{8}")
_REMEDY = "another version has written it: stop the online training, and start it again from a newly pushed version"


class GroupChange(FrozenModel):
    """Counts of a delta in a group of tables: rows created or updated, keys removed."""

    rows: int
    removed: int


class Delta(FrozenModel):
    """One delta.

    Attributes:
        format: format of this file.
        ranker: name of the ranker.
        lineage: version that the deltas start from.
        number: number of the delta, from 1, without gaps.
        previous: sha256 of the file of the delta before; for number 1, the checksum of the lineage's version.
        segment: number of the last segment trained on.
        newest_event: time of the newest event trained on, seconds since 1970; None without times.
        examples: number of examples trained on so far.
        groups: changes by group of tables.
        dense: it has the dense weights.
        is_whole: it has all changes. Otherwise more rows were removed than the ranks remember: no server applies it,
            and a full version that includes it follows.
        created: UTC.
        files: files by name.
    """

    format: Literal[1] = FORMAT
    ranker: str
    lineage: str
    number: int
    previous: str
    segment: int
    newest_event: int | None
    examples: int
    groups: dict[str, GroupChange]
    dense: bool
    is_whole: bool = True
    created: datetime.datetime
    files: dict[str, FileRecord]


class Hold(FrozenModel):
    """No delta above `number` may be served or published."""

    number: int
    because: str
    by: str
    at: datetime.datetime


class Lineage(FrozenModel):
    """The place of a version among the deltas of a lineage.

    Attributes:
        lineage: name of the version that it starts from.
        number: deltas up to this one are included.
        sha256: sha256 of that delta's `delta.json`; the checksum of a version that starts a lineage.
    """

    lineage: str
    number: int
    sha256: str


def lineage_folder(versions: Path, lineage: str) -> Path:
    """Returns the folder of a lineage's deltas."""
    return versions / FOLDER / lineage


def path_of(versions: Path, lineage: str, number: int) -> Path:
    """Returns the folder of a delta."""
    return lineage_folder(versions, lineage) / f"{number:08d}"


def published(versions: Path, lineage: str) -> list[int]:
    """Returns the numbers of a lineage's deltas, ascending."""
    folder = lineage_folder(versions, lineage)
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NUMBER.fullmatch(path.name)]
    return sorted(int(path.name) for path in found if (path / DELTA_FILE).is_file())


def reachable(numbers: list[int], number: int) -> int:
    """Returns the last of the published deltas that follows a number without a gap; the number itself without any."""
    known = set(numbers)
    while number + 1 in known:
        number += 1
    return number


def begin(versions: Path, lineage: str, number: int) -> Path:
    """Returns an empty folder to write a delta to; removes the remains of a killed writer."""
    path = path_of(versions, lineage, number)
    if (path / DELTA_FILE).exists():
        raise ValueError(f"delta {number} of {lineage} is published: {path}")
    refuse_links(path.parent, versions)
    remove_folder(path)
    path.mkdir(parents=True)
    return path


def rows_file(group: str, part: int, what: str) -> str:
    """Returns the name of a file: `keys`, `rows` or `removed` of a group, from one process."""
    return f"{group}.{part}.{what}.npy"


def files_of(delta: "Delta", group: str, what: str) -> list[str]:
    """Returns the names of every process's `keys`, `rows` or `removed` of a group, in the same order for each."""
    return [name for name in sorted(delta.files) if name.startswith(f"{group}.") and name.endswith(f".{what}.npy")]


def publish(path: Path, **what: Any) -> Delta:
    """Makes a delta of the files in its folder, after all have reached the disk. Takes `Delta`'s fields."""
    delta = Delta(
        **what,
        previous=sha256_at(path.parent.parent.parent, what["lineage"], what["number"] - 1),
        created=datetime.datetime.now(datetime.UTC),
        files=records(path),
    )
    sync(path)
    write_whole(path / DELTA_FILE, delta.model_dump_json(indent=2) + "\n")
    sync(path)
    sync(path.parent)
    return delta


def sha256_at(versions: Path, lineage: str, number: int) -> str:
    """Returns the sha256 that the delta after `number` names: of `delta.json`; for 0, the checksum of the version.

    Raises:
        OSError: there is no such file.
        UserError: the version's manifest cannot be read.
    """
    if number:
        return hashlib.sha256((path_of(versions, lineage, number) / DELTA_FILE).read_bytes()).hexdigest()
    try:
        return _sha256_of_version(versions / SHADOW / lineage)
    except FileNotFoundError:  # It is live; one that is promoted meanwhile is found there.
        return _sha256_of_version(versions / lineage)


def _sha256_of_version(version: Path) -> str:
    """Returns the sha256 of a version's manifest, without the model card's entry: a promotion changes the card."""
    file = version / _VERSION_MANIFEST
    content = file.read_bytes()
    try:
        manifest = json.loads(content)
        manifest.get("files", {}).pop(CARD_FILE, None)
    except (ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{file}: is no manifest of a push (got {error}); push the version again") from error
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def read(versions: Path, lineage: str, number: int) -> Delta:
    """Returns the description of a delta.

    Raises:
        UserError: it cannot be read, or has another format.
    """
    file = path_of(versions, lineage, number) / DELTA_FILE
    try:
        content = file.read_bytes()
        refuse_other_format(file, json.loads(content), FORMAT, _REMEDY)
        return Delta.model_validate_json(content)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: cannot be read (got {error}); {_REMEDY}") from error


def read_hold(versions: Path, lineage: str) -> Hold | None:
    """Returns the hold of a lineage, if there is one."""
    file = lineage_folder(versions, lineage) / HOLD_FILE
    try:
        return Hold.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: cannot be read (got {error}); remove it, or hold the lineage again") from error


def write_hold(versions: Path, lineage: str, hold: Hold) -> None:
    """Holds a lineage: servers go back to `hold.number`, where they are further, and nothing is published."""
    refuse_links(lineage_folder(versions, lineage), versions)
    write_whole(lineage_folder(versions, lineage) / HOLD_FILE, hold.model_dump_json(indent=2) + "\n")


def release(versions: Path, lineage: str) -> None:
    """Ends the hold of a lineage."""
    refuse_links(lineage_folder(versions, lineage), versions)
    (lineage_folder(versions, lineage) / HOLD_FILE).unlink()


def lineage_of(version: Path) -> Lineage | None:
    """Returns where a version is among deltas: one that the daily run has pushed starts a lineage.

    None: it has no manifest, so nothing can be built on it.
    """
    try:
        return Lineage.model_validate_json((version / LINEAGE_FILE).read_bytes())
    except FileNotFoundError:
        pass
    if not (version / _VERSION_MANIFEST).is_file():
        return None
    return Lineage(lineage=version.name, number=0, sha256=_sha256_of_version(version))


def write_lineage(model: Path, versions: Path, lineage: str, number: int) -> None:
    """Notes in a model that is about to be pushed which deltas it includes."""
    (model / LINEAGE_FILE).parent.mkdir(exist_ok=True)
    place = Lineage(lineage=lineage, number=number, sha256=sha256_at(versions, lineage, number))
    write_whole(model / LINEAGE_FILE, place.model_dump_json() + "\n")


def remove_included(versions: Path, lineage: str, full: list[int]) -> list[int]:
    """Removes deltas that two full versions include; returns their numbers.

    Args:
        versions: folder of versions.
        lineage: lineage of the deltas.
        full: numbers of the deltas that the full versions of the lineage include, the version itself with 0.
    """
    safe = sorted(full)[-2] if len(full) > 1 else 0
    refuse_links(lineage_folder(versions, lineage), versions)
    gone = [number for number in published(versions, lineage) if number <= safe]
    for number in gone:
        remove_folder(path_of(versions, lineage, number), first=DELTA_FILE)
    return gone

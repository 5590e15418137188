"""Segments: joined examples in the order in which they arrived, as numbered folders that a joiner seals one by one.

`<folder>/<number, 12 digits, from 1>/` holds `examples.blocks` (see `example_files`), whatever state the joiner keeps
beside it, and `segment.json`, written last: a folder without it does not exist for readers. Loads without TensorFlow.
"""

import datetime
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import remove_folder, sync, write_whole
from sangam.schemas.parts.base import FrozenModel

FORMAT: Literal[1] = 1
EXAMPLES_FILE, SEGMENT_FILE = "examples.blocks", "segment.json"
_NUMBER = re.compile(r"\d{12}")
_CHUNK_BYTES = 2**20
_REMEDY = "another version has written it: stop both, remove the folder of segments, and start from the base again"
_RESTORE = "restore it from a backup: training resumes from this segment"


class FileRecord(FrozenModel):
    """A file of a segment or a delta."""

    sha256: str
    bytes: int


class Segment(FrozenModel):
    """One segment.

    Attributes:
        format: format of this file.
        number: number of the segment, from 1, without gaps.
        rows: number of examples.
        first_event: earliest time of an example, seconds since 1970; None without rows.
        last_event: latest time of an example.
        positions: the joiner's position in each source after this segment.
        counts: counts of the joiner since the segment before, by name.
        created: UTC.
        files: files by name.
    """

    format: Literal[1] = FORMAT
    number: int
    rows: int
    first_event: int | None
    last_event: int | None
    positions: dict[str, Any] = Field(default_factory=dict)
    counts: dict[str, int] = Field(default_factory=dict)
    created: datetime.datetime
    files: dict[str, FileRecord]

    @property
    def newest_event(self) -> int | None:
        """`last_event`, but not after the segment was created: one wrong clock must not make all others look old."""
        return None if self.last_event is None else min(self.last_event, int(self.created.timestamp()))


def path_of(folder: Path, number: int) -> Path:
    """Returns the folder of a segment."""
    return folder / f"{number:012d}"


def exists(folder: Path, number: int) -> bool:
    """Says whether a segment is sealed."""
    return (path_of(folder, number) / SEGMENT_FILE).is_file()


def numbers(folder: Path) -> Iterator[int]:
    """Yields the numbers of all sealed segments, ascending; none where there is no folder."""
    return (number for number in _begun(folder) if exists(folder, number))


def newest(folder: Path, known: int = 0) -> int:
    """Returns the number of the last segment; 0 without any.

    Args:
        folder: folder of segments; two days are 86,400 segments.
        known: number of a former last segment; if it is still there, the folder is not listed.
    """
    if known and exists(folder, known):
        while exists(folder, known + 1):
            known += 1
        return known
    return next((number for number in reversed(_begun(folder)) if exists(folder, number)), 0)


def _begun(folder: Path) -> list[int]:
    """Returns the numbers of all segments, also of those being written or removed, ascending."""
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def begin(folder: Path, number: int) -> Path:
    """Returns an empty folder to write a segment to; removes the remains of a killed writer."""
    path = path_of(folder, number)
    if (path / SEGMENT_FILE).exists():
        raise ValueError(f"segment {number} is sealed: {path}")
    remove_folder(path)
    path.mkdir(parents=True)
    return path


def seal(
    folder: Path,
    number: int,
    *,
    rows: int,
    first_event: int | None,
    last_event: int | None,
    positions: Mapping[str, Any],
    counts: Mapping[str, int],
) -> Segment:
    """Makes a segment of the files in its folder, after all have reached the disk."""
    path = path_of(folder, number)
    segment = Segment(
        number=number,
        rows=rows,
        first_event=first_event,
        last_event=last_event,
        positions=dict(positions),
        counts=dict(counts),
        created=datetime.datetime.now(datetime.UTC),
        files=records(path),
    )
    sync(path)
    write_whole(path / SEGMENT_FILE, segment.model_dump_json(indent=2) + "\n")
    sync(path)
    sync(folder)
    return segment


def read(folder: Path, number: int) -> Segment:
    """Returns the description of a sealed segment.

    Raises:
        UserError: it cannot be read, or has another format.
    """
    file = path_of(folder, number) / SEGMENT_FILE
    try:
        content = file.read_bytes()
        refuse_other_format(file, json.loads(content), FORMAT, _REMEDY)
        return Segment.model_validate_json(content)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: cannot be read (got {error}); restore it from a backup, or {_REMEDY}") from error


def examples_file(folder: Path, number: int) -> Path:
    """Returns the file of a segment's examples."""
    return path_of(folder, number) / EXAMPLES_FILE


def refuse_damaged(folder: Path, segment: Segment) -> None:
    """Refuses files that are not those that were sealed.

    Raises:
        UserError: with the file that differs.
    """
    path = path_of(folder, segment.number)
    for name, expected in segment.files.items():
        try:
            found = record_of(path / name)
        except OSError as error:
            raise UserError(f"{path / name}: cannot be read (got {error.strerror}); {_RESTORE}") from error
        if found != expected:
            raise UserError(
                f"{path / name}: differs from {SEGMENT_FILE} (got {found.bytes} bytes, sha256 {found.sha256}; sealed "
                f"were {expected.bytes}, {expected.sha256}); {_RESTORE}"
            )


def remove_before(folder: Path, number: int, *, created_before: datetime.datetime) -> list[int]:
    """Removes segments below a number that were created before a time; returns their numbers."""
    removed = []
    for each in _begun(folder):
        # One below the number without its file was left by a removal that was killed.
        if each >= number or (exists(folder, each) and read(folder, each).created >= created_before):
            break
        remove(folder, each)
        removed.append(each)
    return removed


def remove(folder: Path, number: int) -> None:
    """Removes a segment. Even if power fails, it is there as a whole or not at all."""
    remove_folder(path_of(folder, number), first=SEGMENT_FILE)


def records(path: Path, but: Iterable[str] = ()) -> dict[str, FileRecord]:
    """Returns every file of a folder by name, after it has reached the disk."""
    found = {}
    for file in sorted(path.iterdir()):
        if file.name not in but:
            sync(file)
            found[file.name] = record_of(file)
    return found


def record_of(file: Path) -> FileRecord:
    """Returns size and sha256 of a file."""
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return FileRecord(sha256=digest.hexdigest(), bytes=size)

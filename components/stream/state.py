"""The state that a joiner resumes from: the files still needed, and which of their rows have become examples."""

import json
from pathlib import Path
from typing import Literal

from sangam.schemas.contracts import segments
from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import write_whole
from sangam.schemas.parts.base import FrozenModel

FORMAT: Literal[2] = 2
STATE_FILE = "joiner.json"
_REMEDY = "another version has written it: remove the folder of segments, and start the online training again"

Facts = tuple[int, int, int]
"""Size, time of the last change in ns, and inode of a file."""


class ReadFile(FrozenModel):
    """One reading of a file: of its rows from `first` to `rows`.

    Attributes:
        number: number in the order of reading.
        source: name; empty for the main log.
        name: path below the data folder.
        day: YYYY-MM-DD.
        watermark: watermark before it was read: its rows with earlier times were late.
        arrived: time when it was first seen, seconds since 1970; later times are wrong.
        first: index of the first row that no earlier reading had.
        rows: number of rows of the file at this reading.
        unreadable: number of its records that could not be read.
        head: sha256 of the first row; empty for landed files.
        digest: sha256 of these rows; empty for landed files.
        facts: size, time and inode before the reading; None for landed files.
        is_over: whether the joiner no longer needs it.
    """

    number: int
    source: str
    name: str
    day: str
    watermark: int
    arrived: int
    first: int = 0
    rows: int = 0
    unreadable: int = 0
    head: str = ""
    digest: str = ""
    facts: Facts | None = None
    is_over: bool = False


class LogPlace(FrozenModel):
    """The part of a log of files that belongs to a state: name, bytes, and sha256 of its lines, each with the sha256
    before it."""

    name: str
    bytes: int
    sha256: str


class State(FrozenModel):
    """The state after a segment; the rows themselves are read again from the files.

    Attributes:
        format: format of the file.
        watermark: times up to which all rows and actions are taken to have arrived.
        emitted: order of the last row that became an example, or was left out: its time, file and row.
        files: files that are needed, and landed ones, in the order of reading.
        log: the log of the files in a folder that are over; None before the first.
        counts: counts so far, by name.
    """

    format: Literal[2] = FORMAT
    watermark: int
    emitted: tuple[int, int, int]
    files: tuple[ReadFile, ...]
    log: LogPlace | None = None
    counts: dict[str, int]


def write_state(folder: Path, state: State) -> None:
    """Writes the state to the folder of a segment that is not sealed yet."""
    write_whole(folder / STATE_FILE, state.model_dump_json() + "\n")


def read_state(folder: Path, number: int) -> State:
    """Reads the state of a sealed segment.

    Raises:
        UserError: it cannot be read, differs from the sealed one, or has another format.
    """
    segments.refuse_damaged(folder, segments.read(folder, number))
    file = segments.path_of(folder, number) / STATE_FILE
    try:
        content = file.read_bytes()
        refuse_other_format(file, json.loads(content), FORMAT, _REMEDY)
        return State.model_validate_json(content)
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read (got {error}); restore it from a backup, or {_REMEDY}") from error

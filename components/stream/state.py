"""The state that a joiner resumes from: the files still needed, and which of their rows have become examples."""

import json
from pathlib import Path
from typing import Literal

from schemas.contracts.formats import refuse_other_format
from schemas.errors import UserError
from schemas.host.files import write_whole
from schemas.spec.base import FrozenModel

FORMAT: Literal[1] = 1
STATE_FILE = "joiner.json"
_REMEDY = "another version has written it: remove the folder of segments, and start the online training again"


class ReadFile(FrozenModel):
    """A file that was read.

    Attributes:
        number: number in the order of reading.
        source: name; empty for the main log.
        name: path below the data folder.
        day: YYYY-MM-DD.
        watermark: watermark before it was read: its rows with earlier times were late.
        is_over: whether the joiner no longer needs it.
    """

    number: int
    source: str
    name: str
    day: str
    watermark: int
    is_over: bool


class State(FrozenModel):
    """The state after a segment; the rows themselves are read again from the files.

    Attributes:
        format: format of the file.
        watermark: times up to which all rows and actions are taken to have arrived.
        emitted: order of the last row that became an example, or was left out: its time, file and row.
        files: files in the order of reading; those of old days are left out.
        counts: counts so far, by name.
    """

    format: Literal[1] = FORMAT
    watermark: int
    emitted: tuple[int, int, int]
    files: tuple[ReadFile, ...]
    counts: dict[str, int]


def write_state(folder: Path, state: State) -> None:
    """Writes the state to the folder of a segment that is not sealed yet."""
    write_whole(folder / STATE_FILE, state.model_dump_json() + "\n")


def read_state(folder: Path) -> State:
    """Reads the state in the folder of a segment.

    Raises:
        UserError: it cannot be read, or has another format.
    """
    file = folder / STATE_FILE
    try:
        content = file.read_bytes()
        refuse_other_format(file, json.loads(content), FORMAT, _REMEDY)
        return State.model_validate_json(content)
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read (got {error}); restore it from a backup, or {_REMEDY}") from error

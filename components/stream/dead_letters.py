"""Files and messages that could not be read, and why; the stream continues without them."""

import base64
import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sangam.schemas.host.files import write_whole

_LOG = logging.getLogger("sangam.components.stream")


_MOST_BYTES = 65_536
"""Bytes kept of a message."""
_MOST_ROWS = 1000
"""Indices kept of the rows of one reading."""


@dataclass(frozen=True)
class Letter:
    """A message of a topic that could not be read.

    Attributes:
        topic: topic of the message.
        partition: partition of the message.
        offset: offset of the message, or the first of a range.
        reason: why it could not be read.
        value: bytes of the message.
        until: first offset after a range.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    value: bytes | None = None
    until: int | None = None

    def line(self) -> str:
        """Returns the letter as a line of JSON: the bytes as text if they are UTF-8, else in base64."""
        document: dict[str, object] = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        if self.until is not None:
            document["until"] = self.until
        document["reason"] = self.reason
        if self.value is not None:
            kept = self.value[:_MOST_BYTES]
            document["bytes"] = len(self.value)
            try:
                document["text"] = kept.decode()
            except UnicodeDecodeError:
                document["base64"] = base64.b64encode(kept).decode()
        return json.dumps(document) + "\n"


class DeadLetters:
    """A folder with a JSON file for each file, or rows of one, and JSON lines of messages, that could not be read."""

    def __init__(self, folder: Path):
        self._folder = folder

    def add(self, name: str, source: str, reason: str, *, rows: Sequence[int] = ()) -> None:
        """Adds a file, or some of its rows; adding it again replaces its letter.

        Args:
            name: path below the data folder.
            source: name; empty for the main log.
            reason: why it, or these rows, could not be read.
            rows: indices of rows; empty: all of the file.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        letter: dict[str, object] = {"name": name, "source": source, "reason": reason, "at": time.time()}
        if rows:
            letter["rows"] = list(rows[:_MOST_ROWS])
        write_whole(self._file_of(name, source, rows), json.dumps(letter, indent=2) + "\n")
        _LOG.error("dead_letter=%s source=%s: %s", name, source or "main", reason)

    def remove(self, name: str, source: str) -> None:
        """Removes the letter of a file that could be read after all."""
        self._file_of(name, source, ()).unlink(missing_ok=True)

    def _file_of(self, name: str, source: str, rows: Sequence[int]) -> Path:
        part = f"{source}/{name}" + (f"/{rows[0]}" if rows else "")
        return self._folder / f"{hashlib.sha256(part.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.json"

    def put(self, name: str, letters: Sequence[Letter]) -> None:
        """Replaces the messages of one file; without messages, removes it."""
        file = self._folder / f"{name}.jsonl"
        if not letters:
            file.unlink(missing_ok=True)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, "".join(letter.line() for letter in letters))
        first = letters[0]
        place = f"{first.topic}/{first.partition}/{first.offset}"
        _LOG.error("dead_letters=%d file=%s first=%s: %s", len(letters), file, place, first.reason)

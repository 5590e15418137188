"""What could not be read, and why; the stream goes on without it."""

import hashlib
import json
import logging
import time
from pathlib import Path

from schemas.files import write_whole

_LOG = logging.getLogger("components.stream")


class DeadLetters:
    """A folder with one JSON file for each thing that could not be read."""

    def __init__(self, folder: Path):
        self._folder = folder

    def add(self, name: str, source: str, reason: str) -> None:
        """Adds one; adding the same again changes nothing but its time."""
        self._folder.mkdir(parents=True, exist_ok=True)
        letter = {"name": name, "source": source, "reason": reason, "at": time.time()}
        file = hashlib.sha256(f"{source}/{name}".encode()).hexdigest()[:16]
        write_whole(self._folder / f"{file}.json", json.dumps(letter, indent=2) + "\n")
        _LOG.error("dead_letter=%s source=%s: %s", name, source or "main", reason)

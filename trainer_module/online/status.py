"""The status of an online training, for monitoring."""

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sangam.schemas.host.files import write_whole

_EVERY_S = 1.0


class Status:
    """Writes `online.json` about once a second."""

    def __init__(self, file: Path):
        self._file, self._next = file, 0.0

    def write(
        self, document: Callable[[], Mapping[str, Any]], *, now_at_once: bool = False
    ) -> Mapping[str, Any] | None:
        """Writes and returns the document; None: the last one is too recent.

        Args:
            document: returns JSON; a non-finite number becomes null.
            now_at_once: whether to write even if the last one is recent.
        """
        now = time.monotonic()
        if now < self._next and not now_at_once:
            return None
        self._next = now + _EVERY_S
        told = document()
        content = json.dumps(_finite({**told, "written": time.time()}), indent=2) + "\n"
        # Training does not depend on this file: a full disk must not end it.
        with contextlib.suppress(OSError):
            write_whole(self._file, content)
        return told


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value

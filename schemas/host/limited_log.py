"""A log of what others do wrong: a line for each could fill the disk."""

import logging
import threading
import time
import traceback

_EVERY_S = 10.0
_DETAIL_CHARACTERS = 300
_FRAMES, _TRACE_CHARACTERS = 10, 8000


class LimitedLog:
    """Logs the first failure of each kind, and then at most one every ten seconds, with the number left out."""

    def __init__(self, log: logging.Logger):
        """Takes the log."""
        self._log = log
        self._lock = threading.Lock()
        self._logged_at: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warning(self, kind: str, detail: str) -> None:
        """Logs a line: the kind, one of few, and what the client sent, which may be anything."""
        if self._is_due(kind):
            self._log.warning("%s%s: %s", kind, self._others(kind), shown(detail))

    def error(self, kind: str, error: BaseException) -> None:
        """Logs an error of the server with the end of its traceback."""
        kind = f"{kind} error={type(error).__name__}"
        if self._is_due(kind):
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-_FRAMES))
            self._log.error("%s%s\n%s", kind, self._others(kind), trace[-_TRACE_CHARACTERS:])

    def _is_due(self, kind: str) -> bool:
        now = time.monotonic()
        with self._lock:
            is_due = now - self._logged_at.get(kind, -_EVERY_S) >= _EVERY_S
            if is_due:
                self._logged_at[kind] = now
            else:
                self._left_out[kind] = self._left_out.get(kind, 0) + 1
        return is_due

    def _others(self, kind: str) -> str:
        with self._lock:
            left_out = self._left_out.pop(kind, 0)
        return f" others={left_out}" if left_out else ""


def shown(detail: str) -> str:
    """Returns a client's text as one short line without control characters."""
    return detail[:_DETAIL_CHARACTERS].encode("unicode_escape").decode()[:_DETAIL_CHARACTERS]

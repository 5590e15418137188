"""Notices that rows arrive, but no example is written."""

import logging
from collections.abc import Callable, Collection

from sangam.components.stream.reading import NEVER, MainFile
from sangam.schemas.spec.online import Joining

_LOG = logging.getLogger("sangam.components.stream")
_SLACK_S = 60.0


class Stalls:
    """The time since the last example while rows wait that should be examples.

    Attributes:
        reason: why no example comes; empty while they come.
    """

    def __init__(self, settings: Joining, window_s: int, clock: Callable[[], float], wall: Callable[[], float]):
        """Takes the joiner's settings and longest window, and its clocks."""
        self._settings, self._window_s, self._clock, self._wall = settings, window_s, clock, wall
        self._since: float | None = None
        self.reason = ""

    @property
    def seconds(self) -> float:
        """Seconds since the last example, or since the first row after it; 0 while no row waits."""
        return 0.0 if self._since is None else self._clock() - self._since

    def note_examples(self) -> None:
        """Notes that examples were sealed."""
        self._since = None

    def note(self, files: Collection[MainFile], watermark: int) -> None:
        """Notes the rows that wait."""
        if not any(file.waits.any() for file in files):
            self._since = None
        elif self._since is None:
            self._since = self._clock()
        reason = self._overdue(files, watermark) if self.seconds > self._settings.idle_s + _SLACK_S else ""
        if bool(reason) != bool(self.reason):
            _LOG.error("stalled: %s", reason) if reason else _LOG.info("examples are written again")
        self.reason = reason

    def _overdue(self, files: Collection[MainFile], watermark: int) -> str:
        """Returns why rows are no examples whose windows have ended by this machine's clock; empty without any."""
        now = self._wall()
        if watermark > now + self._settings.ahead_s:
            return (
                f"the watermark is {watermark - now:.0f} s after this machine's clock, which was wrong or is; correct "
                "it, or remove the folder of segments"
            )
        due = now - self._window_s - self._settings.lateness_s - self._settings.idle_s - _SLACK_S
        number = sum(int((file.waits & (file.order <= due)).sum()) for file in files)
        if not number:
            return ""
        newest = "no row" if watermark == NEVER else f"rows to {now - watermark:.0f} s ago"
        return f"{number} rows whose windows have ended are no examples: all partitions have shown {newest}"

"""Restarts a program after each exit, with exponential backoff, unless a restart cannot help."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sangam.components.processes.group import ProcessGroup
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host.backoff import Backoff
from sangam.schemas.host.files import tail

_BACKOFF = Backoff(1.0, max_s=60.0, jitter=0.2)
_STEADY_S = 60.0
"""Running time after which the backoff starts again."""
_TAIL_LINES = 25


class Kept:
    """A program that is kept running.

    Attributes:
        name: display name.
        restarts: number of restarts so far.
    """

    def __init__(self, name: str, arguments: Sequence[str], log: Path, *, reason: Callable[[], str] | None = None):
        """Stores the program; does not start it.

        Args:
            name: display name.
            arguments: module and arguments; this process's id is added.
            log: file to append the output to.
            reason: returns the program's own reason for its end, or an empty text.
        """
        self.name, self.restarts = name, 0
        self._arguments, self._log, self._reason = [*arguments, str(os.getpid())], log, reason
        self._group: ProcessGroup | None = None
        self._started = self._due = 0.0
        self._failures = 0

    def start(self) -> None:
        """Starts the program."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._group = ProcessGroup(self._arguments, log=self._log, ends_with_parent=True)
        self._started = time.monotonic()

    def check(self) -> str:
        """Restarts the program if it has ended and the backoff is over; returns a line for the user, or "".

        Raises:
            UserError: a restart cannot help.
        """
        if self._group is None:
            if time.monotonic() < self._due:
                return ""
            self.restarts += 1
            self.start()
            return ""
        code = self._group.exit_code()
        if code is None:
            return ""
        self._group.end()
        self._group = None
        reason = (self._reason() if self._reason else "") or tail(self._log, _TAIL_LINES)
        if code == ExitCode.MISTAKE:
            raise UserError(f"{reason}\nLog: {self._log}")
        self._failures = 0 if time.monotonic() - self._started > _STEADY_S else self._failures + 1
        wait_s = _BACKOFF.wait_s(max(0, self._failures - 1))
        self._due = time.monotonic() + wait_s
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        because = f": {reason.splitlines()[-1].strip()}" if code > 0 else ""
        return f"{self.name} was lost ({how}{because}); starting it again in {wait_s:.0f} s. Log: {self._log}"

    def wait_for_end(self, seconds: float) -> bool:
        """Waits for the program's own end; returns whether it has ended."""
        return self._group is None or self._group.wait_for(seconds) is not None

    def end(self) -> None:
        """Ends the program if it runs."""
        if self._group is not None:
            self._group.end()
            self._group = None

"""Signals that ask this process to stop, as something that its main thread waits for."""

import os
import select
import signal


class StopSignal:
    """Takes signals from now on.

    No `threading.Event`: a handler runs inside the main thread, also while that, or the handler of an earlier signal,
    holds the event's lock, and would wait for itself.
    """

    def __init__(self, *numbers: int):
        """Replaces the handlers of the signals."""
        self._file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        for number in numbers:
            signal.signal(number, lambda *_: os.eventfd_write(self._file, 1))

    def is_set(self) -> bool:
        """Returns whether one has come."""
        return self.wait(0.0)

    def wait(self, seconds: float) -> bool:
        """Waits for the first, no longer than this; returns whether one has come."""
        return bool(select.select([self._file], [], [], seconds)[0])

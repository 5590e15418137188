"""SIGTERM before a process has anything to clean up."""

import os
import signal
from collections.abc import Callable


def exit_on(
    *numbers: signal.Signals, code: int = 128 + signal.SIGTERM, before: Callable[[], object] = lambda: None
) -> None:
    """Makes signals end this process at once, until it sets handlers of its own.

    Entry points call it before their slow imports: the first process of a container ignores SIGTERM while it has no
    handler, and Kubernetes then waits for the whole grace period of its pod.

    Args:
        numbers: none: SIGTERM.
        code: exit code.
        before: quick action before the end, such as the removal of a file.
    """

    def end(*_: object) -> None:
        try:
            before()
        finally:
            os._exit(code)

    for number in numbers or (signal.SIGTERM,):
        signal.signal(number, end)

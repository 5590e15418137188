"""Progress of a draft: a bar on a terminal; elsewhere one line if it takes long."""

import contextlib
import sys
import time
from collections.abc import Callable, Collection, Iterator
from typing import Protocol, TextIO, TypeVar

from sangam.pipelines.console import say, terminal

LONG_S = 5.0
"""Seconds after which a draft off a terminal says what it is doing."""
Item = TypeVar("Item")


class Track(Protocol):
    """Yields items, and shows how many of them are done."""

    def __call__(self, items: Collection[Item], what: str) -> Iterator[Item]:
        """Yields the items.

        Args:
            items: the items.
            what: what is done with them, such as `reading files`.
        """


def untracked(items: Collection[Item], what: str) -> Iterator[Item]:
    """Yields the items, and shows nothing."""
    del what
    yield from items


@contextlib.contextmanager
def shown(stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[Track]:
    """Gives a way to show progress on a stream, default standard error."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield _line(stream, clock)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=terminal(stream), transient=True) as bar:

        def tracked(items: Collection[Item], what: str) -> Iterator[Item]:
            task = bar.add_task(what, total=len(items))
            for item in items:
                yield item
                bar.advance(task)
            bar.remove_task(task)

        yield tracked


def _line(stream: TextIO, clock: Callable[[], float]) -> Track:
    start, is_told = clock(), False

    def tracked(items: Collection[Item], what: str) -> Iterator[Item]:
        nonlocal is_told
        for done, item in enumerate(items):
            if not is_told and clock() - start > LONG_S:
                say(f"{what}: {done:,} of {len(items):,} done after {LONG_S:.0f} s", terminal(stream))
                is_told = True
            yield item

    return tracked

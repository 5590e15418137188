"""Shows a run on the terminal: one line per step."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sangam.components.logs.files.arrival import WAITING_FILE
from sangam.components.record.run import Step
from sangam.pipelines.console import say
from sangam.pipelines.local.full_disk import is_full
from sangam.pipelines.local.training_progress import Event, TrainingProgress, read_progress
from sangam.schemas.contracts.training_job import PROGRESS_FILE
from sangam.schemas.quantities import shown_bytes, shown_seconds

_REFRESH_S = 0.5
_PLAIN_LINE_EVERY_S = 30.0
_STALE_S = 15.0
"""Age at which numbers are outdated; ranks report every 2 s."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_NODE_WIDTH = 18
_STARTING = "starting"
_BAR_WIDTH = 20
_MARKS = {
    "ran": ("done", "green"),
    "cached": ("cached", "cyan"),
    "failed": ("failed", "red"),
    "stopped": ("stopped", "yellow"),
}


def step_line(step: Step) -> Text:
    """Returns the line of a step that has ended."""
    took, memory = shown_seconds(step.seconds or 0.0), shown_bytes(step.peak_memory_bytes)
    return Text.assemble(f"{step.name:<{_NODE_WIDTH}} {took:>11} {memory:>8}  ", _MARKS[step.state])


def bar(share: float, width: int = _BAR_WIDTH) -> Text:
    """Returns a bar that is filled to a share, from 0 to 1, in half characters."""
    halves = round(2 * width * min(max(share, 0.0), 1.0))
    full = "━" * (halves // 2) + "╸" * (halves % 2)
    return Text.assemble((full, "bar.complete"), ("━" * (width - len(full)), "bar.back"))


class TerminalProgress:
    """An observer: prints a line for each finished step, and a live line (off a terminal, periodic lines) before it."""

    def __init__(self, console: Console, logs: Path):
        self._console = console
        self._logs = logs
        self._progress_file = logs / PROGRESS_FILE
        self._waiting_file = logs / WAITING_FILE
        self._earlier = self._seen = _version(self._progress_file)
        self._seen_at = 0.0
        self._word = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Shows the work before the first step, for the duration of the context."""
        if not self._console.is_terminal:
            say(f"{_STARTING:<{_NODE_WIDTH}} {what}", self._console)
        self._word = what
        self._begin(_STARTING)
        try:
            yield
        finally:
            self._word = ""
            self._end()

    def step_started(self, name: str) -> None:
        """Starts showing the step."""
        self._begin(name)

    def _begin(self, node: str) -> None:
        self._ended.clear()
        self._earlier = self._seen = _version(self._progress_file)
        show = self._show_live if self._console.is_terminal else self._show_plainly
        self._thread = threading.Thread(target=show, args=(node,), name="progress", daemon=True)
        self._thread.start()

    def step_ended(self, step: Step) -> None:
        """Replaces the live line by the step's final line."""
        self._end()
        self._console.print(step_line(step), highlight=False, soft_wrap=True)

    def _end(self) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join()

    def _show_live(self, node: str) -> None:
        started = time.monotonic()
        # Standard output and error are files here, so the live line needs no redirection.
        with Live(
            console=self._console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        ) as live:
            for turn in itertools.count():
                mark = _SPINNER[turn % len(_SPINNER)]
                detail, line = self._detail(), Text(no_wrap=True, overflow="ellipsis")
                line.append(f"{node:<{_NODE_WIDTH}} {shown_seconds(time.monotonic() - started):>11} {mark}  ")
                if isinstance(detail, TrainingProgress) and detail.share is not None:
                    line.append_text(bar(detail.share)).append("  ")
                live.update(line.append(str(detail)), refresh=True)
                if self._ended.wait(_REFRESH_S):
                    return

    def _show_plainly(self, node: str) -> None:
        """Prints periodic lines, and each event when it occurs."""
        started = printed = time.monotonic()
        told: Event | None = None
        while not self._ended.wait(min(_REFRESH_S, _PLAIN_LINE_EVERY_S)):
            now, detail = time.monotonic(), self._detail()
            event = detail if isinstance(detail, Event) else None
            if now - printed >= _PLAIN_LINE_EVERY_S or (event and event != told):
                printed, told = now, event or told
                line = f"{node:<{_NODE_WIDTH}} {shown_seconds(now - started):>11}  running  {detail}"
                say(line.rstrip(), self._console)

    def _detail(self) -> TrainingProgress | Event | str:
        if self._word:
            return self._word
        with contextlib.suppress(OSError):
            if is_full(self._logs):
                # Ranks wait for space to write a checkpoint.
                return Event(f"the disk is full at {self._logs}: free some space")
        with contextlib.suppress(OSError):
            return Event(self._waiting_file.read_text(encoding="utf-8"))
        # By whether the file has changed: a file system's clock is another one, and coarse.
        version, now = _version(self._progress_file), time.monotonic()
        if version == self._earlier:
            return ""  # An earlier step wrote it.
        if version != self._seen:
            self._seen, self._seen_at = version, now
        progress = read_progress(self._progress_file)
        if isinstance(progress, TrainingProgress) and (silent_s := now - self._seen_at) > _STALE_S:
            return f"step {progress.step:,}, no step for {shown_seconds(silent_s)}"
        return progress or ""


def _version(file: Path) -> tuple[int, int, int] | None:
    """Returns what changes with each write to a file; None without a file."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns

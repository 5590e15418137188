"""Tells the readers of a run what this task does: a line at the start and end of each step, and while its pod lives."""

import threading
from pathlib import Path
from typing import Self

from sangam.components.record.journal import Journal
from sangam.components.record.kubeflow import BEAT_S, end_task, task_file
from sangam.schemas.contracts.root import RunFolder


class Told:
    """The journal of a task, by its entry point; a context manager. The steps' own process adds to the same file.

    Attributes:
        run: folder of the run.
        file: journal of the task.
    """

    def __init__(self, run: RunFolder, ranker: str, task: str, beat_s: float = BEAT_S):
        self.run, self._ranker, self._task, self._beat_s = run, ranker, task, beat_s
        self.file: Path = task_file(run, task)
        self._journal = Journal(file=self.file)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="told", daemon=True)

    def __enter__(self) -> Self:
        self.began("")
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()

    def began(self, date: str) -> None:
        """Tells which run this is, for a date (YYYY-MM-DD; empty: none, or not known yet)."""
        self._journal.opened(self.run.path, date=date, ranker=self._ranker)

    def tries(self, first: str) -> None:
        """Tells that a try begins, with the task's first step: until its own process does, it loads libraries."""
        self._journal.step_started(first)

    def ended(self, reason: str, now: float) -> str:
        """Tells the end of the task, and why it failed; returns the step that it ended with."""
        return end_task(self.file, self._task, reason, now)

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_s):
            self._journal.lives()

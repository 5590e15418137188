"""Rows and likes that arrive in a folder, and the joiner that reads them, with clocks that the test moves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sangam.schemas.contracts.joining_job import JoiningJob
from tests.components.logs.sample_logs import SUFFIX, write
from tests.components.logs.sample_sources import DAYS, MIDNIGHT, logs
from tests.components.stream.sample_stream import arrive, examples_of, files_below, job_of

AT = MIDNIGHT[DAYS[1]] + 36_000
WINDOW_S = 3600

Rows = Sequence[tuple[int, int]]
"""Number and time of each."""


class Clock:
    """Both clocks of a joiner."""

    def __init__(self) -> None:
        self.now = float(AT)

    def __call__(self) -> float:
        return self.now


class Stream:
    """A folder and its joiner."""

    def __init__(self, directory: Path, form: str = "parquet", **settings: Any):
        self.job: JoiningJob = job_of(
            directory, logs((form, form, "parquet")), **{"lateness_s": 10, "idle_s": 30.0, **settings}
        )
        self.clock, self._directory, self._number, self._form = Clock(), directory, 0, form
        self.start()

    def start(self) -> None:
        """Starts the joiner, again if it was started: only what was sealed counts."""
        from sangam.components.stream.joiner import Joiner

        self.joiner = Joiner(self.job, self.clock, self.clock)

    def path(self, log: str, name: str, day: str = DAYS[1]) -> Path:
        """Returns where a file of a log is, or would be."""
        return Path(self.job.data_root, log, day, name)

    def write(self, path: Path, rows: Rows) -> None:
        """Writes a file of either log in place."""
        is_main = path.parent.parent.name == "shown"
        shown = [{"row": f"r{n}", "post": 1, "at": at, "hour": n} for n, at in rows]
        likes = [{"row": f"r{n}", "post": 1, "time": at, "what": "like", "day": 0.0} for n, at in rows]
        write(path, self._form, shown if is_main else likes)

    def arrive(self, *, shown: Rows = (), likes: Rows = (), day: str = DAYS[1]) -> None:
        """Lets a file of each log appear, and takes steps."""
        self._number += 1
        folder = self._directory / f"new-{self._number}"
        for log, rows in {"shown": shown, "likes": likes}.items():
            if rows:
                self.write(folder / log / day / f"part-{self._number}.{SUFFIX[self._form]}", rows)
        arrive(folder, self.job, files_below(folder))
        self.step()

    def step(self, seconds: float = 0.0) -> None:
        """Lets time pass, and the joiner do what is due."""
        self.clock.now += seconds
        while self.joiner.step(is_last=True):
            pass

    def finish(self) -> dict[int, list[int]]:
        """Lets all windows end; returns the labels of the examples of each row."""
        self.step(WINDOW_S + 60)
        return self.labels()

    def labels(self) -> dict[int, list[int]]:
        """Returns the labels of the examples of each row so far."""
        found: dict[int, list[int]] = {}
        for row in examples_of(self.job):
            found.setdefault(row["hour"][0], []).append(row["like"][0])
        return found

    def letters(self) -> list[dict[str, Any]]:
        """Returns the dead letters, by source and name."""
        letters = [json.loads(file.read_text()) for file in Path(self.job.dead_letters).glob("*.json")]
        return sorted(letters, key=lambda letter: (letter["source"], letter["name"]))

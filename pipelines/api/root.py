"""A pipeline root in Python: its runs, and what is live."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sangam.components.record.store import find_run, read_runs
from sangam.components.registry.served import served
from sangam.pipelines.api.frames import runs_frame
from sangam.pipelines.api.run import Run
from sangam.pipelines.times import utc_now
from sangam.schemas.contracts.root import LATEST
from sangam.schemas.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Root:
    """The folder that runs write to.

    >>> root = sangam.Root("root")
    >>> root.latest.state
    'pushed'

    Attributes:
        path: the folder.
    """

    path: Path

    def __init__(self, path: "str | os.PathLike[str]"):
        object.__setattr__(self, "path", Path(path))

    def runs(self, ranker: str | None = None) -> list[Run]:
        """Returns its runs, newest first.

        >>> root.runs()
        [Run(..., clicks, 2024-05-20, pushed...)]

        Args:
            ranker: name of the ranker; None: all rankers.

        Raises:
            UserError: the folder is not a root, or has no run of this ranker.
        """
        return [Run(stored) for stored in read_runs(self.path, ranker)]

    def frame(self, ranker: str | None = None) -> "DataFrame":
        """Returns a row for each run, newest first, with a column `<task>.<metric>` for each task's main metric.

        Times are UTC.

        >>> root.frame()[["ranker", "date", "state", "version"]].values.tolist()
        [['clicks', Timestamp('2024-05-20 00:00:00'), 'pushed', '20240520001']]
        >>> bool(root.frame()["clicked.auc"].item() > 0.6)
        True

        Args:
            ranker: name of the ranker; None: all rankers.

        Raises:
            UserError: the folder is not a root, or has no run of this ranker.
        """
        return runs_frame(read_runs(self.path, ranker), utc_now())

    @property
    def latest(self) -> Run:
        """The run that started last.

        >>> root.latest.id == root.runs()[0].id
        True

        Raises:
            UserError: the folder is not a root, or has no run.
        """
        return self.run(LATEST)

    def run(self, run: str) -> Run:
        """Returns a run by its id, or the beginning of it.

        >>> root.run(root.latest.id[:8]).id == root.latest.id
        True

        Raises:
            UserError: none has this id, or several begin so.
        """
        return Run(find_run(self.path / "runs" / run))

    def live(self, ranker: str) -> str | None:
        """Returns the path or address of the version that servers load: the newest in the folder of the last push.

        >>> root.live("clicks")
        '...serving/clicks/20240520001'

        Args:
            ranker: name of the ranker.

        Returns:
            None: nothing was pushed, or every version was withdrawn.

        Raises:
            UserError: the folder is not a root, has no run of this ranker, or its registry is damaged.
        """
        read_runs(self.path, ranker)  # Refuses another name.
        found = served(self.path.resolve(), ranker)
        return f"{found.folder}/{found.newest}" if found and found.newest else None

    def __repr__(self) -> str:
        return f"Root({str(self.path)!r})"


class RunFailed(UserError):
    """A run without a blessed model; raised by `run(..., check=True)`.

    >>> try:
    ...     raise sangam.RunFailed(root.latest)
    ... except sangam.UserError as error:
    ...     print(error.run.state)
    pushed

    Attributes:
        run: the run.
    """

    is_mistake = False

    def __init__(self, run: Run):
        self.run = run
        super().__init__(run.why())

"""What the page of a run on Kubeflow leaves for the pages after it: `<root>/runs/<run>/result.json`."""

import datetime
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from components.reports.page.facts import PastRun
from schemas.contracts.root import RESULT_FILE, Root, RunFolder
from schemas.host.files import write_whole


class Result(BaseModel):
    """The result of one run.

    Attributes:
        ranker: name in the spec.
        date: last day of the evaluation; None for logs without days.
        auc: by task.
        blessed: by all gates.
        ended: UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ranker: str
    date: str | None
    auc: dict[str, float | None]
    blessed: bool
    ended: datetime.datetime

    def past(self, run: str) -> PastRun:
        """Returns what later pages show of it."""
        return PastRun(run, self.date, self.auc, self.blessed)


def keep(run: RunFolder, result: Result) -> None:
    """Writes a run's result into its folder."""
    write_whole(run.path / RESULT_FILE, result.model_dump_json(indent=2) + "\n")


def kept_before(root: Root, run: RunFolder, ranker: str) -> list[tuple[RunFolder, Result]]:
    """Returns the ranker's other runs with a result, the oldest first; those of another version are left out."""
    others = [(folder, result) for folder, result in _results(root) if folder != run and result.ranker == ranker]
    return sorted(others, key=lambda each: each[1].ended)


def _results(root: Root) -> Iterator[tuple[RunFolder, Result]]:
    for folder in root.run_folders():
        try:
            yield folder, Result.model_validate_json(Path(folder.path, RESULT_FILE).read_bytes())
        except (OSError, ValueError):
            continue

"""The report of ingestion: days, and rows read, written and left out by split.

Loads without TFX: the record of a run contains it.
"""

from pydantic import BaseModel, ConfigDict

from sangam.components.registry.base import Base

FILE_NAME = "ingestion.json"
"""The report's file in the Examples artifact. It is written last: where it exists, the Examples are complete."""

POSITIVES, SAMPLED, WITHOUT = "positives", "sampled rows", "positives without a candidate"
"""Counts of data.negatives."""
EARLIER_ONLY = "rows with earlier actions only"
"""Count of a source of actions: rows whose actions were all before them, by the clocks that wrote both."""


class _Report(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SplitReport(_Report):
    """The rows of a split.

    Attributes:
        num_files: number of files read.
        read: sum of `written_of_logs`, all of `dropped` and `negatives_sampled_out`.
        written: Examples in the split.
        dropped: rows left out, by reason, for example "label missing: like".
        ignored: values treated as missing, clipped or cut off, by reason and column, for example "not finite: price".
        negatives: rows with label 0 of the task with keep_negatives, before sampling; 0 without sampling.
        negatives_sampled_out: number of negatives left out by sampling.
        candidates: rows of data.negatives: `POSITIVES`, `SAMPLED`, `WITHOUT`; empty without it.
        joined: by source of the join, numbers of rows on both sides, by outcome.
    """

    num_files: int
    read: int
    written: int
    dropped: dict[str, int]
    ignored: dict[str, int] = {}
    negatives: int = 0
    negatives_sampled_out: int = 0
    candidates: dict[str, int] = {}
    joined: dict[str, dict[str, int]] = {}

    @property
    def written_of_logs(self) -> int:
        """Examples that are rows of the logs, and no sampled rows."""
        return self.written - self.candidates.get(SAMPLED, 0)

    @property
    def kept_negatives(self) -> float | None:
        """Share of the negatives that was kept; None without sampling."""
        return 1 - self.negatives_sampled_out / self.negatives if self.negatives else None

    @property
    def left_out(self) -> dict[str, int]:
        """Rows that were read and not written, by reason."""
        if self.kept_negatives is None:
            return self.dropped
        reason = f"negatives sampled out (kept {self.kept_negatives:.4g} of {self.negatives:,})"
        return {**self.dropped, reason: self.negatives_sampled_out}


class IngestionReport(_Report):
    """The input data of a run.

    Attributes:
        date: YYYY-MM-DD, None for logs without dates.
        days: days of each split, empty for logs without dates.
        missing_days: days of the window without rows.
        splits: by name.
        history_days: days before those of the splits, read only for features of kind rate and count.
        window_start: first train day of the window, which the base may have learned; None for logs without dates.
        base: the checkpoint that training starts from; `days` then contains only the days after it. None: training
            starts from scratch.
        notes: notes for the user on the choice of the base.
        meaning: notes on what predictions and metrics mean, which also stand in the model card.
    """

    date: str | None
    days: dict[str, list[str]]
    missing_days: list[str]
    splits: dict[str, SplitReport]
    history_days: list[str] = []
    window_start: str | None = None
    base: Base | None = None
    notes: list[str] = []
    meaning: list[str] = []

"""Counts one file's rows while it is read."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sangam.components.logs.readers.batches import Rows
from sangam.components.logs.rows.conversion import Converted
from sangam.components.logs.rows.counts import UNREADABLE, FileCounts
from sangam.components.logs.rows.sampling import Sampled
from sangam.components.logs.rows.times import TimeCounts
from sangam.components.reports.ingestion import POSITIVES, SAMPLED, WITHOUT


@dataclass
class FileCounting:
    """The counts so far; see `FileCounts`.

    Attributes:
        rows_seen: readable rows of the split so far.
    """

    split: str
    path: str
    rows_seen: int = 0
    error: str | None = None
    _written: int = 0
    _negatives: int = 0
    _left_out: int = 0
    _dropped: Counter[str] = field(default_factory=Counter)
    _ignored: Counter[str] = field(default_factory=Counter)
    _times: dict[str, TimeCounts] = field(default_factory=dict)
    _columns: set[str] = field(default_factory=set)
    _candidates: Counter[str] = field(default_factory=Counter)
    _pairs: Counter[str] = field(default_factory=Counter)

    def add(self, rows: Rows, converted: Converted) -> None:
        """Counts the rows of a batch, as read and as converted."""
        self.rows_seen += rows.batch.num_rows
        self._written += converted.batch.num_rows
        self._dropped.update(converted.dropped)
        if rows.num_unreadable:
            self._dropped[UNREADABLE] += rows.num_unreadable
        self._ignored.update(converted.ignored)
        for name, times in converted.times.items():
            self._times[name] = self._times.get(name, TimeCounts()) + times
        self._columns |= set(rows.batch.schema.names) - rows.absent

    def add_sampled(self, sampled: Sampled) -> None:
        """Counts the negatives of a batch that was added."""
        self._written -= sampled.num_left_out
        self._negatives += sampled.num_negatives
        self._left_out += sampled.num_left_out

    def add_candidates(self, positives: int, sampled: int, without: int) -> None:
        """Counts the positives of a batch that was added, their sampled rows, and positives without a candidate."""
        self._written += sampled
        self._candidates.update({POSITIVES: positives, SAMPLED: sampled, WITHOUT: without})

    def add_pairs(self, pairs: Mapping[str, int]) -> None:
        """Counts pairs of rows of one item."""
        self._pairs.update(pairs)

    def counts(self) -> FileCounts:
        """Returns the counts."""
        return FileCounts(
            split=self.split,
            path=self.path,
            rows_read=self.rows_seen + self._dropped[UNREADABLE],
            rows_written=self._written,
            dropped=dict(+self._dropped),
            ignored=dict(self._ignored),
            times=self._times,
            negatives=self._negatives,
            negatives_sampled_out=self._left_out,
            candidates=dict(self._candidates),
            pairs=dict(self._pairs),
            columns=sorted(self._columns),
            error=self.error,
        )

"""Sums up the counts of files to the report of a run, and judges them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from sangam.components.logs.files.resolve import Files
from sangam.components.logs.rows.times import TimeCounts, ranges_of, times_problem
from sangam.components.reports.ingestion import IngestionReport, SplitReport
from sangam.schemas.derived.sources import sources_of
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec.data import Parts

UNREADABLE = "not a tf.Example"
_ERRORS_SHOWN = 10


class _Report(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileCounts(_Report):
    """The counts of one file's rows.

    Attributes:
        split: split of the rows.
        path: path of the file.
        rows_read: records, readable or not.
        rows_written: Examples.
        dropped: rows left out, by reason.
        ignored: values treated as missing, clipped or cut off, by reason and column.
        times: times of each column of times.
        negatives: negatives of the task with keep_negatives, before sampling; 0 without sampling.
        negatives_sampled_out: negatives that sampling has left out.
        candidates: rows of data.negatives: `POSITIVES`, `SAMPLED`, `WITHOUT`; empty without it.
        pairs: pairs of rows of one item, and those that differ in a column; see `negatives.undeclared`.
        columns: columns of the inputs with a value in at least one row.
        joined: counts of the join by source; a day's counts are in its first file.
        error: why reading stopped; the counts are then incomplete.
    """

    split: str
    path: str
    rows_read: int = 0
    rows_written: int = 0
    dropped: dict[str, int] = {}
    ignored: dict[str, int] = {}
    times: dict[str, TimeCounts] = {}
    negatives: int = 0
    negatives_sampled_out: int = 0
    candidates: dict[str, int] = {}
    pairs: dict[str, int] = {}
    columns: list[str] = []
    joined: dict[str, dict[str, int]] = {}
    error: str | None = None


def with_joined(counts: Sequence[FileCounts], joined: Mapping[str, Mapping[str, int]]) -> list[FileCounts]:
    """Returns the counts of a day's files, the first with the counts of the day's join."""
    first = min((count.path for count in counts), default="")
    found = {name: dict(numbers) for name, numbers in joined.items()}
    return [count.model_copy(update={"joined": found}) if count.path == first else count for count in counts]


def summed(files: Files, counts: Sequence[FileCounts], logs: Parts, columns: Sequence[Column]) -> IngestionReport:
    """Sums up the files' counts and judges them.

    Raises:
        UserError: for a column that no record has, implausible times, no rows, or too many dropped rows.
    """
    splits = {}
    times: list[str] = []
    for split in files.splits:
        of_split = [count for count in counts if count.split == split]
        _require_columns(split, of_split, columns)
        times += _times_problems(files, split, of_split, logs, columns)
        splits[split] = SplitReport(
            num_files=len(of_split),
            read=sum(count.rows_read for count in of_split),
            written=sum(count.rows_written for count in of_split),
            dropped=_sum([count.dropped for count in of_split]),
            ignored=_sum([count.ignored for count in of_split]),
            negatives=sum(count.negatives for count in of_split),
            negatives_sampled_out=sum(count.negatives_sampled_out for count in of_split),
            candidates=_sum([count.candidates for count in of_split]),
            joined={
                name: _sum([count.joined.get(name, {}) for count in of_split]) for name in sorted(sources_of(logs))
            },
        )
    if times:
        raise UserError("\n".join(times))
    _require_rows(splits, logs.max_dropped_fraction)
    days = files.days() if files.date else {}
    return IngestionReport(date=files.date, days=days, missing_days=list(files.missing_days), splits=splits)


def refuse_errors(files: Sequence[tuple[str, str]], counts: Sequence[FileCounts]) -> None:
    """Raises the errors of files.

    Args:
        files: split and path of every file that was read.
        counts: counts of these files.

    Raises:
        UserError: with the errors of all files, at most ten in full.
    """
    order = {file: position for position, file in enumerate(files)}
    failed = sorted((order[count.split, count.path], count.error) for count in counts if count.error)
    if failed:
        more = len(failed) - _ERRORS_SHOWN
        rest = [f"... and {more} more files"] if more > 0 else []
        raise UserError("\n".join([error for _, error in failed[:_ERRORS_SHOWN]] + rest))
    unread = sorted(set(order) - {(count.split, count.path) for count in counts})
    if unread:
        raise RuntimeError(f"ingestion has no counts of {len(unread)} files, first {unread[0]}")


def _require_columns(split: str, counts: Sequence[FileCounts], columns: Sequence[Column]) -> None:
    """Requires each column in some record of the split, for formats without a header."""
    seen = {name for count in counts for name in count.columns}
    for column in columns:
        if column.name not in seen:
            raise UserError(
                f"{counts[0].path}: column '{column.name}': is missing from every record of this file and the other "
                f"{len(counts) - 1} of split '{split}' (got {listed(sorted(seen))}); add it to the logs"
            )


def _times_problems(
    files: Files, split: str, counts: Sequence[FileCounts], logs: Parts, columns: Sequence[Column]
) -> Iterator[str]:
    # All days have the same descriptions of their ranges.
    ranges = ranges_of(logs, files.of_split(split)[0].day)
    for column in columns:
        of_column = [(count.path, count.times[column.name]) for count in counts if column.name in count.times]
        if column.time is None or not of_column:
            continue
        total = sum((times for _, times in of_column), TimeCounts())
        problem = times_problem(column, total, ranges[column.time], logs.times.max_outside_fraction)
        if problem:
            worst, _ = max(of_column, key=lambda pair: pair[1].outside)
            yield f"split '{split}', for example {worst}: {problem}"


def _require_rows(splits: Mapping[str, SplitReport], max_dropped_fraction: float) -> None:
    problems = []
    for split, report in splits.items():
        num_dropped = report.read - report.written_of_logs - report.negatives_sampled_out
        fraction = num_dropped / report.read if report.read else 1.0
        if fraction > max_dropped_fraction:
            reasons = ", ".join(f"{reason} ({count})" for reason, count in sorted(report.dropped.items()))
            problems.append(
                f"data.max_dropped_fraction: {num_dropped} of {report.read} rows of split '{split}' cannot be "
                f"used: {reasons or 'there are none'} (got {fraction:.4g}); at most {max_dropped_fraction:g}: "
                "correct the logs, or raise the bound if so many rows may be lost"
            )
        elif not report.written:
            problems.append(
                f"data: split '{split}' has no row left (got {report.negatives_sampled_out} negatives sampled out of "
                f"{report.read} rows); raise keep_negatives, or supply rows with other labels"
            )
    if problems:
        raise UserError("\n".join(problems))


def _sum(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items()))

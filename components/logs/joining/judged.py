"""Checks the rows read from the sources, and sums up the counts of a join by day."""

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sangam.components.logs.files.listing import first_problems
from sangam.components.logs.joining.pipeline import JoinRun
from sangam.components.logs.joining.splitting import FileReport
from sangam.components.logs.request import Request
from sangam.components.logs.rows.times import TimeCounts, ranges_of, times_problem
from sangam.schemas.derived.sources import columns_of_source, time_of_source
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec.data import DayLogs

DayCounts = dict[str, dict[str, dict[str, int]]]
"""Number of rows by day, YYYY-MM-DD, source and outcome."""


def refuse_problems(run: JoinRun, request: Request) -> None:
    """Refuses files that cannot be read, columns that no record of a source has, and implausible times.

    Raises:
        UserError: with all problems of a kind, at most ten in full.
    """
    assert isinstance(request.logs, DayLogs)
    order = {(file.source, file.path): position for position, file in enumerate(run.plan.files)}
    in_order = sorted(run.files, key=lambda report: order[report.source, report.path])
    errors = [report.error for report in in_order if report.error]
    days = {(file.source, file.path): file.day for file in run.plan.files}
    problems = list(dict.fromkeys(errors)) or list(_source_problems(in_order, days, request.logs, request.columns))
    if problems:
        raise UserError("\n".join(first_problems(problems)))


def _source_problems(
    reports: Sequence[FileReport], days: Mapping[tuple[str, str], str], logs: DayLogs, columns: Sequence[Column]
) -> Iterator[str]:
    for name, source in sorted(logs.sources.items()):
        of_source = [report for report in reports if report.source == name and report.rows]
        if not of_source:
            continue
        place = f"data.sources.{name}, for example {of_source[0].path}"
        seen = frozenset[str]().union(*(report.columns for report in of_source))
        for column in columns_of_source(source, columns):
            if column.name not in seen:
                yield (
                    f"{place}: column '{column.name}': is missing from every record (got {listed(sorted(seen))}); add "
                    "it to the source"
                )
        time = time_of_source(source)
        assert time.time is not None
        worst = max(of_source, key=lambda report: report.times.outside)
        allowed = ranges_of(logs, days[name, worst.path])[time.time]
        total = sum((report.times for report in of_source), TimeCounts())
        problem = times_problem(time, total, allowed, logs.times.max_outside_fraction)
        if problem:
            yield f"data.sources.{name}, for example {worst.path}: {problem}"


def counts_by_day(run: JoinRun) -> DayCounts:
    """Sums up the outcomes of the rows of each day and source."""
    totals: dict[tuple[str, str], Counter[str]] = {}
    for bucket in run.buckets:
        for number, counts in bucket.counts.items():
            key = datetime.date.fromordinal(number).isoformat(), bucket.source
            totals.setdefault(key, Counter()).update(counts)
    day_of = {(file.source, file.path): file.day for file in run.plan.files}
    for report in run.files:
        key = day_of[report.source, report.path], report.source
        if report.unreadable and key in totals:
            totals[key]["records that are not tf.Examples"] += report.unreadable
    result: DayCounts = {}
    for (day, source), counter in sorted(totals.items()):
        result.setdefault(day, {})[source] = dict(sorted(counter.items()))
    return result

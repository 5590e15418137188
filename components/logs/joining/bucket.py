"""Joins the rows of the main log and of one source whose keys are in one bucket."""

import datetime
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.joining.actions import Mask, Windows, repeated, taken, windows
from sangam.components.logs.joining.as_of import as_of
from sangam.components.logs.joining.keys import NO_KEY, Integers, by_key_and_time, codes
from sangam.components.logs.joining.sides import FILE, ROW, VALUE, Side, sides
from sangam.components.reports.ingestion import EARLIER_ONLY
from sangam.schemas.derived.sources import days_read
from sangam.schemas.spec.sources import ActionColumn, Actions, Source, StateTable

IS_MATCHED = "is matched"
"""Column of joined rows: a table has a version of the row."""
_DAY_S = 86_400
_EPOCH = datetime.date(1970, 1, 1).toordinal()

Counts = Mapping[int, Mapping[str, int]]
"""Numbers of rows by day of the main log and by outcome."""


@dataclass(frozen=True)
class Joined:
    """The joined columns of some rows.

    Attributes:
        batch: FILE and ROW of the main log, IS_MATCHED, and the columns of the source by VALUE and their names in the
            examples; None without rows.
        counts: counts by day.
    """

    batch: pa.RecordBatch | None
    counts: Counts


@dataclass(frozen=True)
class _Day:
    """One day of the main log: its rows, the rows of the source that may be joined to them, and its counts."""

    number: int
    main: Side
    other: Side
    rows: Integers
    others: Integers
    counts: Counter[str]

    def add(self, what: str, mask: Mask) -> None:
        """Counts rows of the main log."""
        self.counts[what] += int(mask.sum())

    def add_own(self, what: str, mask: Mask) -> None:
        """Counts rows of the source in the files of this day only, so that no row is counted for two days."""
        self.counts[what] += int((mask & (self.other.days[self.others] == self.number)).sum())


def join_bucket(
    source: Source, rows: pa.RecordBatch, others: pa.RecordBatch, days: Collection[int], absent: Collection[int]
) -> Joined:
    """Joins the rows of one bucket.

    A row is joined only to rows in the files of its own day's `days_read`: the result for a day does not depend on the
    other days of a run.

    Args:
        source: source to join.
        rows: rows of the main log, with the columns of `sides` and the keys.
        others: rows of the source, also with its values.
        days: days of the main log.
        absent: days of the source that have no files.
    """
    main, other = sides(rows, others)
    counts = {}
    parts = []
    for number in sorted(days):
        read = [each.toordinal() for each in days_read(source, datetime.date.fromordinal(number))]
        day = _Day(number, main, other, main.of([number]), other.of(read), Counter())
        match source:
            case Actions():
                columns = _actions(source, day, [each for each in read if each in absent])
            case StateTable():
                columns = _versions(source, day)
        counts[number] = {what: count for what, count in day.counts.items() if count}
        if len(day.rows):
            at = pa.array(day.rows)
            parts.append(
                pa.RecordBatch.from_arrays(
                    [main.column(FILE).take(at), main.column(ROW).take(at), *columns.values()], [FILE, ROW, *columns]
                )
            )
    batch = pa.Table.from_batches(parts).combine_chunks().to_batches()[0] if parts else None
    return Joined(batch, counts)


def _versions(source: StateTable, day: _Day) -> dict[str, pa.Array]:
    rows, versions = day.main.at(day.rows), day.other.at(day.others)
    found = as_of(rows, versions, source.max_age_days * _DAY_S)
    is_matched = found.version >= 0
    day.add("rows with a version", is_matched)
    day.add("rows without a version", found.is_unknown)
    day.add("rows with later versions only", found.is_early)
    day.add(f"rows with versions older than {source.max_age_days} days only", found.is_stale)
    day.add("rows without a key or a time", rows[0] == NO_KEY)
    day.add_own("versions without a key or a time", versions[0] == NO_KEY)
    [numbers] = by_key_and_time(versions)
    day.add_own("versions replaced by one of the same time", _is_replaced(numbers) & (versions[0] != NO_KEY))
    indices = np.append(day.others, 0)[found.version]
    at = pa.array(indices, pa.int64(), mask=~is_matched)
    return {
        IS_MATCHED: pa.array(is_matched),
        **{
            VALUE + name: day.other.column(VALUE + (each.column or name)).take(at)
            for name, each in source.columns.items()
        },
    }


def _is_replaced(numbers: Integers) -> Mask:
    """Returns which rows are followed by another with the same number."""
    order = np.argsort(numbers, kind="stable")
    result = np.zeros(len(numbers), bool)
    result[order[:-1]] = np.diff(numbers[order]) == 0
    return result


def _actions(source: Actions, day: _Day, absent: Sequence[int]) -> dict[str, pa.Array]:
    rows, actions = day.main.at(day.rows), day.other.at(day.others)
    values = {
        name.removeprefix(VALUE): day.other.column(name).take(pa.array(day.others))
        for name in day.other.batch.schema.names
        if name.startswith(VALUE)
    }
    [content] = codes(list(values.values()), nulls_are_equal=True) if values else [np.zeros(len(day.others), np.int64)]
    [numbers] = by_key_and_time(actions)
    is_repeated = repeated(numbers, content) & (actions[0] != NO_KEY)
    found = windows(rows, actions, source.window_s, is_repeated)
    day.add("rows with actions", found.last > found.first)
    day.add("rows without actions", (found.last == found.first) & (rows[0] != NO_KEY))
    day.add(EARLIER_ONLY, found.has_earlier_only)
    day.add("rows without a key or a time", rows[0] == NO_KEY)
    day.add("rows that may lack actions: days without files", _reaches(rows[1], source.window_s, absent))
    day.counts["actions joined"] += int(found.is_joined.sum())
    day.add_own("actions before the event", found.is_early)
    day.add_own(f"actions more than {source.window_s} s after the event", found.is_late)
    day.add_own("actions without an event on this day", found.is_alone)
    day.add_own("actions repeated", is_repeated)
    day.add_own("actions without a key or a time", actions[0] == NO_KEY)
    return {
        IS_MATCHED: pa.array(np.ones(len(day.rows), bool)),
        **{
            VALUE + name: _column(column, name, found, values, len(day.others))
            for name, column in source.columns.items()
        },
    }


def _column(
    column: ActionColumn, name: str, found: Windows, values: Mapping[str, pa.Array], num_actions: int
) -> pa.Array:
    """Returns a column of numbers taken from the actions, with null for values that are not finite."""
    is_wanted = np.ones(num_actions, bool)
    for own, wanted in column.where.items():
        value = wanted if isinstance(wanted, int) else wanted.encode()
        is_wanted &= np.asarray(pc.fill_null(pc.equal(values[own], value), False), dtype=bool)
    if column.take in ("happened", "count"):
        numbers, has_value = taken(found, column.take, is_wanted)
    else:
        array = values[column.column or name]
        is_wanted &= np.asarray(pc.fill_null(pc.is_finite(array), False), dtype=bool)
        numbers, has_value = taken(found, column.take, is_wanted, np.asarray(array.fill_null(0)))
    return pa.array(numbers, mask=~has_value)


def _reaches(times: Integers, window_s: int, days: Sequence[int]) -> Mask:
    """Returns which windows reach into days, which begin at midnight UTC."""
    result = np.zeros(len(times), bool)
    for day in days:
        begins = (day - _EPOCH) * _DAY_S
        result |= (times + window_s >= begins) & (times < begins + _DAY_S)
    return result

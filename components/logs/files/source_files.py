"""The files of the sources that are joined to the main log, and the columns that both supply."""

import posixpath
from collections.abc import Iterable, Sequence

from sangam.components.logs.files.day_files import listed_days, require_regular
from sangam.components.logs.files.listing import Listed, Storage
from sangam.schemas.derived.days import Day
from sangam.schemas.derived.sources import days_read, origins
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import DayLogs, Logs
from sangam.schemas.spec.sources import Actions, Source


def logs_of(logs: DayLogs, source: Source) -> DayLogs:
    """Returns a source as logs by day with the limits of the main log, to be listed and read like it."""
    arrival = logs.arrival.model_copy(update={"marker": source.marker}) if logs.arrival and source.marker else None
    return logs.model_copy(
        update={
            "pattern": source.pattern,
            "format": source.format,
            "arrival": arrival,
            # Files without actions or new versions are common.
            "missing_days": "skip",
            "sources": {},
            "negatives": None,
        }
    )


def source_files(logs: DayLogs, days: Sequence[Day], data_root: str, storage: Storage) -> list[tuple[str, Day, Listed]]:
    """Returns the files that are joined to days of the main log: name of the source, day and file, in this order.

    Raises:
        UserError: for special files, and for days of a source without files that must have some.
    """
    found: list[tuple[str, Day, Listed]] = []
    problems = []
    for name, source in sorted(logs.sources.items()):
        read = sorted({each for day in days for each in days_read(source, day)})
        listed = listed_days(logs_of(logs, source), read, data_root, storage)
        require_regular(each for of_day in listed for each in of_day)
        found += [(name, day, each) for day, of_day in zip(read, listed, strict=True) for each in of_day]
        absent = {day for day, of_day in zip(read, listed, strict=True) if not of_day}
        problems += _problems(f"data.sources.{name}", source, days, absent, data_root)
    if problems:
        raise UserError("\n".join(problems))
    return found


def supplied_twice(logs: Logs, columns: Iterable[str], path: str) -> list[str]:
    """Returns an error text for each column of a file of the main log that a source or ingestion supplies as well.

    Args:
        logs: the spec's data section; of a source, as `logs_of` returns it, no column is refused.
        columns: columns of the file.
        path: path of the file.
    """
    of = origins(logs)
    created = logs.negatives.created if logs.negatives else ()
    return [
        f"{path}: column '{name}': is created by data.negatives (got it in the logs); give it another name there and "
        "in the task or key that reads it, or remove data.negatives if the logs have negatives"
        for name in sorted(set(columns).intersection(created))
    ] + [
        f"{path}: column '{name}': is supplied by source '{of[name]}' too (got it in both); remove it from the main "
        f"log, or rename it under data.sources.{of[name]}.columns and wherever the spec reads it"
        for name in sorted(of.keys() & set(columns))
    ]


def _problems(place: str, source: Source, days: Sequence[Day], absent: set[Day], data_root: str) -> list[str]:
    files = f"{place}.pattern: {posixpath.join(data_root, source.pattern)}"
    rows = f"rows, or no marker {source.marker}" if source.marker else "rows"
    read = {each for day in days for each in days_read(source, day)}
    if absent == read:
        return [f"{files}: no {rows} (got none from {min(read)} to {max(read)}); check the data folder and the pattern"]
    if isinstance(source, Actions):
        if source.incomplete == "count" or not absent:
            return []
        return [
            f"{files}: no {rows} on days that windows reach into (got none for {_shown(absent)}); run it again when "
            f"they are there, or set `incomplete: count` under {place} to use the actions that there are"
        ]
    without = [day for day in days if absent.issuperset(days_read(source, day))]
    if not without:
        return []
    return [
        f"{files}: no {rows} in the {source.max_age_days} days before (got none for {_shown(without)}); supply them, "
        "or raise max_age_days"
    ]


def _shown(days: Sequence[Day] | set[Day]) -> str:
    return ", ".join(str(day) for day in sorted(days))

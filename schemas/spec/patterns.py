"""Patterns of files in the data folder, with or without a day."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

DAY_FIELDS = {"year": ("{YYYY}",), "month": ("{MM}", "{M}"), "day": ("{DD}", "{D}")}
"""Fields of a pattern by part of the date; {M} and {D} have no leading zero."""

FileFormat = Literal["parquet", "csv", "jsonl", "tfrecord"]
DayFormat = Literal[FileFormat, "prediction_log"]
"""Formats of logs by day; `prediction_log` has the records of TensorFlow Serving's own log."""
TableFormat = Literal[FileFormat, "delta"]
"""Formats of a table; `delta` is a folder of Delta Lake."""


def _inside_the_data_folder(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError("must be relative to the data folder and must not contain '..'")
    return pattern


def has_each_day_field_once(pattern: str) -> str:
    """Returns a pattern of a day's files.

    Raises:
        ValueError: it does not name the day.
    """
    if any(sum(map(pattern.count, fields)) != 1 for fields in DAY_FIELDS.values()):
        raise ValueError(
            "must contain {YYYY}, {MM} and {DD} once each, as in '{YYYY}-{MM}-{DD}/*.parquet', or {M} and {D} for "
            "numbers without leading zeros"
        )
    return pattern


FilePattern = Annotated[str, Field(min_length=1), AfterValidator(_inside_the_data_folder)]
DayPattern = Annotated[FilePattern, AfterValidator(has_each_day_field_once)]

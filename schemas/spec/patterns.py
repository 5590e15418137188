"""Patterns of files in the data folder, with or without a day."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

DAY_FIELDS = ("{YYYY}", "{MM}", "{DD}")

FileFormat = Literal["parquet", "csv", "tfrecord"]


def _inside_the_data_folder(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError("must be relative to the data folder and must not contain '..'")
    return pattern


def _has_each_day_field_once(pattern: str) -> str:
    if any(pattern.count(field) != 1 for field in DAY_FIELDS):
        raise ValueError("must contain {YYYY}, {MM} and {DD} once each, as in '{YYYY}-{MM}-{DD}/*.parquet'")
    return pattern


FilePattern = Annotated[str, Field(min_length=1), AfterValidator(_inside_the_data_folder)]
DayPattern = Annotated[FilePattern, AfterValidator(_has_each_day_field_once)]

"""The report that lies beside the Examples. It is written last: where it is, the Examples are whole."""

import posixpath

import pydantic
from tfx.dsl.io import fileio

from components.steps.example_gen.rows.counts import FILE_NAME, IngestionReport, SplitReport
from schemas.errors import UserError

__all__ = ["FILE_NAME", "IngestionReport", "SplitReport", "read_ingestion", "write_ingestion"]


def read_ingestion(examples_uri: str) -> IngestionReport:
    """Reads the report of an Examples artifact.

    Raises:
        UserError: if there is none, or it is not of this version.
    """
    path = posixpath.join(examples_uri, FILE_NAME)
    if not fileio.exists(path):
        raise UserError(f"{path}: no such file; these Examples were not made by Sangam, or only in part")
    with fileio.open(path, "r") as file:
        text = file.read()
    try:
        return IngestionReport.model_validate_json(text)
    except pydantic.ValidationError as error:
        raise UserError(f"{path}: is no ingestion report of this version (got: {error})") from error


def write_ingestion(examples_uri: str, report: IngestionReport) -> None:
    """Writes the report of an Examples artifact."""
    with fileio.open(posixpath.join(examples_uri, FILE_NAME), "w") as file:
        file.write(report.model_dump_json(indent=2) + "\n")

"""Reads and writes the reports of ingestion, Transform and the evaluation, in any file system that TFX can reach."""

import posixpath

from tfx.dsl.io import fileio

from sangam.components.examples.documents import read_document
from sangam.components.reports.curves import METRICS_FILE, Curve, curves_of
from sangam.components.reports.ingestion import FILE_NAME as INGESTION_FILE
from sangam.components.reports.ingestion import IngestionReport
from sangam.schemas.contracts.statistics import FILE_NAME as STATISTICS_FILE
from sangam.schemas.contracts.statistics import Statistics, parse_statistics


def read_ingestion(examples_uri: str) -> IngestionReport:
    """Reads the report of an Examples artifact.

    Raises:
        UserError: if there is none, or another version wrote it.
    """
    return read_document(examples_uri, INGESTION_FILE, IngestionReport)


def write_ingestion(examples_uri: str, report: IngestionReport) -> None:
    """Writes the report of an Examples artifact."""
    with fileio.open(posixpath.join(examples_uri, INGESTION_FILE), "w") as file:
        file.write(report.model_dump_json(indent=2) + "\n")


def write_statistics(graph_uri: str, statistics: Statistics) -> None:
    """Writes the statistics of a graph, which later incremental trainings use."""
    with fileio.open(posixpath.join(graph_uri, STATISTICS_FILE), "w") as file:
        file.write(statistics.model_dump_json(indent=2) + "\n")


def read_statistics(graph_uri: str) -> tuple[Statistics | None, str]:
    """Returns the statistics of a graph; or None and why there are none.

    Raises:
        UserError: for a file that is damaged or of another format.
    """
    path = posixpath.join(graph_uri, STATISTICS_FILE)
    if not fileio.exists(path):
        return None, f"the statistics of the features are gone ({path})"
    with fileio.open(path, "rb") as file:
        return parse_statistics(path, file.read()), ""


def read_curves(evaluation_uri: str) -> dict[str, Curve]:
    """Returns the curves of an evaluation by task; none where nothing was measured."""
    path = posixpath.join(evaluation_uri, METRICS_FILE)
    if not fileio.exists(path):
        return {}
    with fileio.open(path, "rb") as file:
        return curves_of(file.read(), path)

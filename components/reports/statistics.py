"""The file of statistics beside Transform's graph."""

import os

import pydantic
from tfx.dsl.io import fileio

from schemas.contracts.statistics import FILE_NAME, Statistics
from schemas.errors import UserError


def write_statistics(graph_uri: str, statistics: Statistics) -> None:
    """Writes the statistics of a graph, for whoever goes on from it."""
    with fileio.open(os.path.join(graph_uri, FILE_NAME), "w") as file:
        file.write(statistics.model_dump_json(indent=2) + "\n")


def read_statistics(graph_uri: str) -> tuple[Statistics | None, str]:
    """Returns the statistics of a graph; or None and why there are none.

    Raises:
        UserError: a file that is not what is written there: guessing would shift the inputs under the weights.
    """
    path = os.path.join(graph_uri, FILE_NAME)
    if not fileio.exists(path):
        return None, f"the statistics of the features are gone ({path})"
    with fileio.open(path, "rb") as file:
        text = file.read()
    try:
        return Statistics.model_validate_json(text), ""
    except pydantic.ValidationError as error:
        raise UserError(
            f"{path}: is not what this version writes (got {str(error).splitlines()[0]}); restore the file from a "
            "backup, or train from nothing with mode: full"
        ) from error

"""Limits of text columns in the server's database, checked before a request.

The server creates the object in Kubernetes first and its row in the database afterwards. If the text does not fit, the
row fails (500, "Data too long for column"), and the object remains in Kubernetes, invisible to the API (`CreateJob`,
backend/src/apiserver/resource/resource_manager.go of kubeflow/pipelines).
"""

from typing import Literal

from sangam.schemas.errors import UserError

Kind = Literal["pipeline", "pipeline version", "experiment", "run", "recurring run"]

_MOST: dict[Kind, dict[str, int]] = {
    "pipeline": {"name": 128},
    "pipeline version": {"name": 127},
    "experiment": {"name": 128},
    "run": {"name": 255, "description": 255, "service account": 255},
    "recurring run": {"name": 255, "description": 255, "service account": 255},
}
"""Characters of the columns (backend/src/apiserver/model), the minimum over several releases. Descriptions of pipelines
and of their versions have no practical limit."""


def check_room(kind: Kind, **texts: str) -> None:
    """Checks that the texts of an object fit into their columns.

    Raises:
        UserError: one is too long.
    """
    for field, text in texts.items():
        column = field.replace("_", " ")
        most = _MOST[kind][column]
        if len(text) > most:
            raise UserError(
                f"--host: has no room for the {column} of a {kind} (got {len(text)} characters: {text[:40]}...); "
                f"Kubeflow's database takes {most}: use shorter names"
            )

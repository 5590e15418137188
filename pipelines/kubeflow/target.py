"""The target of a compiled pipeline: backend, images, and defaults of its parameters."""

from dataclasses import dataclass
from typing import Literal

from sangam.schemas.errors import UserError

Flavour = Literal["kubeflow", "vertex"]


@dataclass(frozen=True)
class Target:
    """The target of a compiled pipeline.

    Attributes:
        image: container image of every step.
        trainer_image: image of the trainer step and of a training job's pods; empty: `image`.
        pipeline_root: default folder of all files that outlive a run: on a volume, on Vertex AI /gcs/<bucket>/<folder>
            or gs://<bucket>/<folder>.
        data_root: default folder of the logs.
        date: default of `date`; empty: the day (UTC) before the run. Only for logs by day.
        git_commit: git commit of the compiled code; empty if unknown.
        flavour: `kubeflow`: the open-source backend; `vertex`: Vertex AI Pipelines.
    """

    image: str
    trainer_image: str
    pipeline_root: str
    data_root: str
    date: str = ""
    git_commit: str = ""
    flavour: Flavour = "kubeflow"


def check_image(option: str, name: str) -> None:
    """Rejects an invalid name of an image.

    Raises:
        UserError: the name contains whitespace.
    """
    if any(character.isspace() for character in name):
        raise UserError(f"{option}: is not the name of an image (got '{name}'); for example registry.example/sangam:1")


def image_warning(option: str, name: str) -> str | None:
    """Returns a warning for an image that is not pinned by its digest, None for one that is."""
    if not name or "@sha256:" in name:
        return None
    return f"warning: {option}: is not pinned by digest (got {name}); `sangam deploy` accepts only NAME@sha256:..."

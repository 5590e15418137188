"""The names by which Sangam recognizes its objects on the server, and checks of the user's names."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from sangam.schemas.derived.days import Day
from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import Name
from sangam.schemas.spec import Spec, digest
from sangam.schemas.spec.cluster import Pod, PodsLauncher
from sangam.schemas.spec.kubernetes_names import DnsLabel, DnsName

_SHORT = 10
_PINNED = re.compile(r"^[a-z0-9][a-zA-Z0-9._:/-]*@sha256:[0-9a-f]{64}$")
_TEXTS: dict[str, tuple[Any, str]] = {
    "NAME": (Name, "give the ranker's name as in its spec: lower case letters, digits and underscores"),
    "--namespace": (DnsLabel, "a namespace is lower case letters, digits and '-', at most 63"),
    "--service-account": (DnsName, "a service account is lower case letters, digits, '-' and '.'"),
    "--experiment": (
        Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,127}$")],
        "letters, digits, spaces and ._- are allowed, at most 128",
    ),
}
"""Type of each option, and the allowed text for its error message."""


def check_text(option: str, text: str) -> str:
    """Checks and returns a name from the user.

    Raises:
        UserError: the name is invalid.
    """
    kind, advice = _TEXTS[option]
    try:
        TypeAdapter(kind).validate_python(text)
    except ValidationError:
        raise UserError(f"{option}: is not a valid name (got {text!r}); {advice}") from None
    return text


def check_pinned(option: str, image: str) -> str:
    """Returns an image that is pinned by its digest.

    Raises:
        UserError: the name has no digest: a tag can move to another image.
    """
    if not _PINNED.match(image):
        name = image.split("@")[0] or "NAME"
        raise UserError(
            f"{option}: is not pinned by digest (got {image!r}); give NAME@sha256:..., which these print: "
            f"`docker buildx imagetools inspect {name}` or `crane digest {name}`"
        )
    return image


def check_images(spec: Spec) -> None:
    """Checks that the images in the spec are pinned.

    Raises:
        UserError: one is not.
    """
    for where, pod in _pods(spec):
        if pod.image is not None:
            check_pinned(f"cluster.{where}.image", pod.image)


def pipeline_name(ranker: str) -> str:
    """Returns the name of a ranker's pipeline, as in the compiled file.

    Raises:
        UserError: the ranker's name cannot be a name in Kubernetes.
    """
    name = ranker.replace("_", "-")
    try:
        TypeAdapter(DnsLabel).validate_python(name)
    except ValidationError:
        raise UserError(f"NAME: cannot be a name in Kubernetes (got {ranker!r}); let it end with a letter") from None
    return name


def version_name(spec: Spec, compiled: str) -> str:
    """Returns the name of a version: equal pipelines have equal names, so that none is uploaded twice."""
    return f"{digest(spec)[:_SHORT]}-{_sha256(compiled)[:_SHORT]}"


def schedule_prefix(ranker: str) -> str:
    """Returns the prefix of a ranker's recurring runs that Sangam creates."""
    return f"{pipeline_name(ranker)}-daily-"


def schedule_name(ranker: str, meaning: Mapping[str, Any]) -> str:
    """Returns the name of a recurring run: equal names mean equal runs at equal times."""
    return f"{schedule_prefix(ranker)}{_sha256(json.dumps(meaning, sort_keys=True))[:_SHORT]}"


def schedule_description(version: str) -> str:
    """Returns the description of a recurring run: short, to fit its column; the version's has spec and images."""
    return f"Version {version}, run daily; kept by `sangam deploy`."


def backfill_prefix(ranker: str) -> str:
    """Returns the prefix of a ranker's backfill runs."""
    return f"{pipeline_name(ranker)}-backfill-"


def backfill_name(ranker: str, day: Day, meaning: Mapping[str, Any]) -> str:
    """Returns the name of a date's run: the date is done once a run of this name has succeeded."""
    return f"{backfill_prefix(ranker)}{day.isoformat()}-{_sha256(json.dumps(meaning, sort_keys=True))[:_SHORT]}"


def description_of(ranker: str) -> str:
    """Returns the description by which Sangam recognizes a pipeline that it has created."""
    return f"Ranker {ranker}, kept by `sangam deploy`."


def _pods(spec: Spec) -> Iterator[tuple[str, Pod]]:
    cluster = spec.cluster
    yield "default", cluster.default
    for name, step in cluster.steps.items():
        yield f"steps.{name}", step
    if isinstance(cluster.launcher, PodsLauncher):
        for part in ("host", "coordinator", "parameter_server", "data_worker"):
            yield f"launcher.{part}", getattr(cluster.launcher, part)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

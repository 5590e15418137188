"""The record of one blessing. Loads without TFX: `sangam validate --base` reads it."""

import datetime
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field

ENTRY = re.compile(r"^(\d{8})\.json$")
"""Name of a record's file."""


class BlessedModel(BaseModel):
    """One blessing.

    Attributes:
        model_uri: of the model artifact.
        ranker_digest: of the part of the spec that the model depends on.
        blessed_at: UTC.
        metrics: task to metric to value over all evaluation examples.
        checkpoint_uri: of the checkpoint artifact; empty in records older than checkpoints, as the rest is.
        days: that the model has learned from, its bases' included, oldest first; empty for logs without days.
        transform_graph_uri: of the graph of Transform that the model was trained with.
        inputs_digest: of the part of the spec that the graph was made from.
        model_sha256: of the model's manifest; empty in records older than it, as the next two are.
        checkpoint_sha256: of the checkpoint's manifest.
        transform_graph_sha256: of the graph's manifest.
        because: why a person blessed a model that a gate had refused; empty: it passed every gate.
        by: that person.
        pushed: the version that it was pushed as, relative to the pipeline root, so that a root may move; empty: it
            was pushed nowhere, or by a release that did not record it.
        pushes: how often this model had been pushed before.
        is_withdrawn: that version was rolled back; looked up when records are read, never written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model_uri: str
    ranker_digest: str
    blessed_at: datetime.datetime
    metrics: dict[str, dict[str, float | None]]
    checkpoint_uri: str = ""
    days: tuple[str, ...] = ()
    transform_graph_uri: str = ""
    inputs_digest: str = ""
    model_sha256: str = ""
    checkpoint_sha256: str = ""
    transform_graph_sha256: str = ""
    because: str = ""
    by: str = ""
    pushed: str = ""
    pushes: int = 0
    is_withdrawn: bool = Field(default=False, exclude=True)


def mark_withdrawn(models: Sequence[BlessedModel], listed: Callable[[str], Iterable[str]]) -> list[BlessedModel]:
    """Returns the models with `is_withdrawn` filled in.

    Args:
        models: as they were read.
        listed: from a folder of versions, relative to the root, to the names in its folder of withdrawn ones: of
            versions, and of the records beside them, which stay when a version's files are removed.
    """
    gone = {
        f"{target}/{name.removesuffix('.json')}"
        for target in {posixpath.dirname(model.pushed) for model in models if model.pushed}
        for name in listed(target)
    }
    return [model.model_copy(update={"is_withdrawn": model.pushed in gone}) for model in models]

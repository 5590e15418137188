"""The record of one blessing. Loads without TFX: `sangam validate --base` reads it."""

import datetime
import re

from pydantic import BaseModel, ConfigDict

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
        days: that the model has learnt from, its bases' included, oldest first; empty for logs without days.
        transform_graph_uri: of the graph of Transform that the model was trained with.
        inputs_digest: of the part of the spec that the graph was made from.
        model_sha256: of the model's manifest; empty in records older than it, as the next two are.
        checkpoint_sha256: of the checkpoint's manifest.
        transform_graph_sha256: of the graph's manifest.
        because: why a person blessed a model that a gate had refused; empty: it passed every gate.
        by: that person.
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

"""The artifact that a training leaves for the next one to start from."""

import json
import os
from pathlib import Path
from typing import Any

from tfx.dsl.io import fileio
from tfx.types import artifact

from components.registry.seal import SHA256, sha256_of
from schemas.errors import UserError

FOLDER = "checkpoint"
"""Of the checkpoint itself, below the artifact's uri."""
_MANIFEST = "manifest.json"
DAYS, BASE, SPEC_DIGEST, STEP = "days", "base", "spec_digest", "step"
TRANSFORM_GRAPH, INPUTS_DIGEST = "transform_graph", "inputs_digest"
TRANSFORM_GRAPH_SHA256 = "transform_graph_sha256"
"""Names of the custom properties: all days learned from, as a JSON list; the checkpoint that training started from, ""
where there was none; the ranker's digest; the number of steps; Transform's graph, what that was declared by, and the
sha256 of its manifest."""


class RankerCheckpoint(artifact.Artifact):
    """Dense weights, tables, optimizer state: all that it takes to go on training."""

    # KFP carries the type by this name and imports the class from it: one lower-case word, a dot, a class.
    # https://github.com/tensorflow/tfx/blob/v1.16.0/tfx/orchestration/kubeflow/v2/compiler_utils.py
    TYPE_NAME = "components.RankerCheckpoint"


def is_there(uri: str) -> bool:
    """Says whether the artifact still holds a checkpoint: its manifest is written last and removed first."""
    return bool(fileio.exists(os.path.join(uri, FOLDER, _MANIFEST)))


def recorded(checkpoint: Any) -> dict[str, Any]:
    """Returns what the record of a blessed model says of its checkpoint, an artifact of this type."""
    return {
        "checkpoint_uri": checkpoint.uri,
        "days": json.loads(checkpoint.get_string_custom_property(DAYS)),
        "transform_graph_uri": checkpoint.get_string_custom_property(TRANSFORM_GRAPH),
        "inputs_digest": checkpoint.get_string_custom_property(INPUTS_DIGEST),
        "checkpoint_sha256": checkpoint.get_string_custom_property(SHA256),
        "transform_graph_sha256": checkpoint.get_string_custom_property(TRANSFORM_GRAPH_SHA256),
    }


def sha256_of_manifest(uri: str) -> str:
    """Returns the sha256 of an artifact's manifest, which holds a checksum of each file."""
    return sha256_of(Path(uri, FOLDER, _MANIFEST))


def refuse_other(uri: str, blessed: str) -> None:
    """Stops a training from another checkpoint than the one that was blessed.

    Args:
        uri: of the checkpoint artifact.
        blessed: sha256 of its manifest in the record of the blessing; empty in a record older than that.

    Raises:
        UserError: when it is another.
    """
    if blessed and (found := sha256_of_manifest(uri)) != blessed:
        raise UserError(
            f"{os.path.join(uri, FOLDER)}: is not the checkpoint that was blessed (got sha256 {found} of {_MANIFEST}, "
            f"noted was {blessed}); restore it from a backup, or remove it: then the base before it is taken"
        )

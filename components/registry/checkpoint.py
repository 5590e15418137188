"""The checkpoint artifact of a training, from which the next one may start."""

import json
import os
from pathlib import Path
from typing import Any

from tfx.dsl.io import fileio
from tfx.types import artifact

from sangam.components.registry.seal import SHA256, sha256_of
from sangam.schemas.errors import UserError

FOLDER = "checkpoint"
"""Folder of the checkpoint below the artifact's uri."""
_MANIFEST = "manifest.json"
DAYS, BASE, SPEC_DIGEST, STEP = "days", "base", "spec_digest", "step"
TRANSFORM_GRAPH, INPUTS_DIGEST = "transform_graph", "inputs_digest"
TRANSFORM_GRAPH_SHA256 = "transform_graph_sha256"
"""Custom properties: all days trained on, as a JSON list; the checkpoint that training started from, or ""; the
ranker's digest; the number of steps; Transform's graph, the digest of its inputs, and the sha256 of its manifest."""


class RankerCheckpoint(artifact.Artifact):
    """Dense weights, tables and optimizer state: everything needed to continue training."""

    # KFP imports the class by this name, which must be one lower-case word, a dot and a class.
    # https://github.com/tensorflow/tfx/blob/v1.16.0/tfx/orchestration/kubeflow/v2/compiler_utils.py
    TYPE_NAME = "sangam.RankerCheckpoint"


def exists(uri: str) -> bool:
    """Returns whether the artifact still has a checkpoint: its manifest is written last and removed first."""
    return bool(fileio.exists(os.path.join(uri, FOLDER, _MANIFEST)))


def recorded(checkpoint: Any) -> dict[str, Any]:
    """Returns the fields of a blessed model's record that describe its checkpoint, an artifact of this type."""
    return {
        "checkpoint_uri": checkpoint.uri,
        "days": json.loads(checkpoint.get_string_custom_property(DAYS)),
        "transform_graph_uri": checkpoint.get_string_custom_property(TRANSFORM_GRAPH),
        "inputs_digest": checkpoint.get_string_custom_property(INPUTS_DIGEST),
        "checkpoint_sha256": checkpoint.get_string_custom_property(SHA256),
        "transform_graph_sha256": checkpoint.get_string_custom_property(TRANSFORM_GRAPH_SHA256),
    }


def sha256_of_manifest(uri: str) -> str:
    """Returns the sha256 of an artifact's manifest, which contains a checksum of each file."""
    return sha256_of(Path(uri, FOLDER, _MANIFEST))


def refuse_changed_checkpoint(uri: str, blessed: str) -> None:
    """Refuses a checkpoint that has changed since it was blessed.

    Args:
        uri: address of the checkpoint artifact.
        blessed: sha256 of its manifest when it was blessed.

    Raises:
        UserError: if it has changed.
    """
    if (sha256 := sha256_of_manifest(uri)) != blessed:
        raise UserError(
            f"{os.path.join(uri, FOLDER)}: is not the checkpoint that was blessed (got sha256 {sha256} of {_MANIFEST}, "
            f"recorded {blessed}); restore it from a backup, or remove it to start from the base before it"
        )

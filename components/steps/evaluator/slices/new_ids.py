"""Ids for which a model has no row. The candidate's signature `known_ids` says which examples have such ids.

Models without tables lack the signature: then there are no slices of new ids.
"""

import os

from tensorflow.core.protobuf import saved_model_pb2
from tfx.dsl.io import fileio

from schemas.contracts.export import KNOWN_IDS, MODEL_FILE


def features_with_known_ids(model_path: str) -> frozenset[str]:
    """Returns the features for which a SavedModel says which ids it knows; none without the signature."""
    saved_model = saved_model_pb2.SavedModel()
    with fileio.open(os.path.join(model_path, MODEL_FILE), "rb") as file:
        saved_model.ParseFromString(file.read())
    return frozenset(
        name
        for graph in saved_model.meta_graphs
        if KNOWN_IDS in graph.signature_def
        for name in graph.signature_def[KNOWN_IDS].outputs
    )

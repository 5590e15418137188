"""The ids that a model has no row for: which examples have one, as the candidate's own signature says.

Older exports and stock models lack the signature: then there are no slices of new ids, and `features_told_by` says so.
"""

import os

from tensorflow.core.protobuf import saved_model_pb2
from tfx.dsl.io import fileio

KNOWN_IDS = "known_ids"
"""The signature, from serialized examples to {feature: whether its id has a row}; also its key among the extracts."""


def features_told_by(model_path: str) -> frozenset[str]:
    """Returns the features of whose ids the SavedModel can tell whether they are new; none without the signature."""
    saved_model = saved_model_pb2.SavedModel()
    with fileio.open(os.path.join(model_path, "saved_model.pb"), "rb") as file:
        saved_model.ParseFromString(file.read())
    return frozenset(
        name
        for graph in saved_model.meta_graphs
        if KNOWN_IDS in graph.signature_def
        for name in graph.signature_def[KNOWN_IDS].outputs
    )

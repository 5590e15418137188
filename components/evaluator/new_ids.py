"""The ids that a model has no row for: which examples have one, as the candidate's own signature says.

Older exports and stock models lack the signature: then there are no slices of new ids, and `features_told_by` says so.
"""

import os
from typing import Any

import apache_beam as beam
import tensorflow_model_analysis as tfma
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_model_analysis.utils import model_util
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


def extractor(model: Any, spec: tfma.ModelSpec) -> Any:
    """Returns the extractor that asks a model, one of TFMA's shared models, about each batch."""
    inference = model_util.ModelSignaturesDoFn(
        model_specs=[spec],
        eval_shared_models={"": model},
        output_keypath=[KNOWN_IDS],
        signature_names={"": [KNOWN_IDS]},
        prefer_dict_outputs=True,
    )
    return tfma.extractors.Extractor(stage_name="ExtractKnownIds", ptransform=beam.ParDo(inference))

"""Writes a graph of TensorFlow Transform without data: all statistics are constants in it."""

import posixpath
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import impl_helper
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

from sangam.schemas.derived.columns import history_of
from sangam.schemas.derived.history import history_features
from sangam.schemas.spec import Inputs


def write_graph(
    folder: str, preprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]], schema: schema_pb2.Schema
) -> None:
    """Writes the files of `tft.TFTransformOutput`: the graph, and the schemas before and after it.

    It does the same as TFX's executor without analyzers, without a pipeline.

    Args:
        folder: folder of the graph.
        preprocessing_fn: a function without analyzers.
        schema: schema of the raw examples; its features have no shape, so that each is a SparseTensor.
    """
    raw = dataset_metadata.DatasetMetadata(schema)
    features = schema_utils.schema_as_feature_spec(schema).feature_spec
    specs = {name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in features.items()}
    metadata_io.write_metadata(raw, posixpath.join(folder, tft.TFTransformOutput.RAW_METADATA_DIR))
    impl_helper.analyze_in_place(preprocessing_fn, False, features, specs, folder)


def with_history(schema: schema_pb2.Schema, inputs: Inputs) -> schema_pb2.Schema:
    """Returns the schema with the joined history columns."""
    joined = [schema_pb2.Feature(name=history_of(name), type=schema_pb2.FLOAT) for name in history_features(inputs)]
    whole = schema_pb2.Schema()
    whole.CopyFrom(schema)
    whole.feature.extend(joined)
    return whole

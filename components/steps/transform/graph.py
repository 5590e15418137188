"""Writes a graph of TensorFlow Transform without data: all statistics are constants in it."""

import posixpath
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

from sangam.schemas.derived.columns import history_of
from sangam.schemas.derived.history import history_features
from sangam.schemas.spec import Inputs


def write_graph(
    folder: str, preprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]], schema: schema_pb2.Schema
) -> None:
    """Writes the files of `tft.TFTransformOutput`: the graph, and the schemas before and after it.

    It does the same as TFX's executor without analyzers, without a pipeline, and without tracing the function once more
    for the schema of its outputs.

    Args:
        folder: folder of the graph.
        preprocessing_fn: a function without analyzers.
        schema: schema of the raw examples; its features have no shape, so that each is a SparseTensor.
    """
    raw = dataset_metadata.DatasetMetadata(schema)
    features = schema_utils.schema_as_feature_spec(schema).feature_spec
    specs = {name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in features.items()}
    metadata_io.write_metadata(raw, posixpath.join(folder, tft.TFTransformOutput.RAW_METADATA_DIR))
    function = tf.function(lambda inputs: preprocessing_fn(inputs), input_signature=[specs], autograph=False)
    graph = posixpath.join(folder, tft.TFTransformOutput.TRANSFORM_FN_DIR)
    traced, module = function.get_concrete_function(), tf.Module()
    # Neither pruned nor with a signature for TensorFlow Serving, as TensorFlow Transform would write it: with 2,000
    # features these take most of the time, and nothing reads them.
    module.transform_fn = traced
    tf.saved_model.save(module, graph, signatures={})
    outputs = {name: _feature_of(output) for name, output in traced.structured_outputs.items()}
    made = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(outputs))
    metadata_io.write_metadata(made, posixpath.join(folder, tft.TFTransformOutput.TRANSFORMED_METADATA_DIR))


def _feature_of(output: tf.Tensor | tf.SparseTensor) -> Any:
    if isinstance(output, tf.SparseTensor):
        return tf.io.VarLenFeature(output.dtype)
    return tf.io.FixedLenFeature(output.shape[1:].as_list(), output.dtype)


def with_history(schema: schema_pb2.Schema, inputs: Inputs) -> schema_pb2.Schema:
    """Returns the schema with the joined history columns."""
    joined = [schema_pb2.Feature(name=history_of(name), type=schema_pb2.FLOAT) for name in history_features(inputs)]
    whole = schema_pb2.Schema()
    whole.CopyFrom(schema)
    whole.feature.extend(joined)
    return whole

"""Transform analysed and applied by TensorFlow Transform on Beam, as its component does."""

import tempfile
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

from schemas.columns import columns
from schemas.spec import Inputs
from trainer_module.preprocessing import preprocessing_fn

_TYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}


def analysed(inputs: Inputs, rows: list[dict[str, list[Any]]]) -> tuple[list[dict[str, Any]], tft.TFTransformOutput]:
    """Returns the transformed rows and the function that Transform saved."""
    raw_spec = {column.name: tf.io.VarLenFeature(_TYPES[column.type]) for column in columns(inputs)}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(raw_spec))

    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        return preprocessing_fn(batch, {"inputs": inputs.model_dump_json()})

    with tft_beam.Context(temp_dir=tempfile.mkdtemp()):
        (data, _), saved = (rows, metadata) | tft_beam.AnalyzeAndTransformDataset(transform)
        directory = tempfile.mkdtemp()
        saved | tft_beam.WriteTransformFn(directory)
    metadata_io.write_metadata(metadata, f"{directory}/{tft.TFTransformOutput.RAW_METADATA_DIR}")
    return data, tft.TFTransformOutput(directory)

"""Transform analyzed and applied by TensorFlow Transform on Beam, as its component does."""

import tempfile
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

from sangam.components.steps.transform import analysis
from sangam.schemas.contracts.statistics import FILE_NAME, Statistics, completed, to_analyze
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import Inputs
from sangam.trainer_module.transforms.preprocessing import numbers_fn, preprocessing_fn
from tests.beam_args import BEAM_ARGS

_TYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}
Rows = list[dict[str, list[Any]]]
_TRANSFORMED: list[dict[str, Any]] = []


def _keep(row: Any) -> None:
    """Keeps a row: Beam runs in this process, and finds this function and its list by their names."""
    _TRANSFORMED.append(row)


def metadata_of(inputs: Inputs) -> dataset_metadata.DatasetMetadata:
    """Returns the metadata of rows that have all columns."""
    raw_spec = {column.name: tf.io.VarLenFeature(_TYPES[column.type]) for column in columns(inputs)}
    return dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(raw_spec))


def statistics_of(inputs: Inputs, rows: Rows) -> Statistics:
    """Returns the statistics of all features over these rows."""
    analyze = analysis.Analyze(numbers_fn, inputs, to_analyze(inputs, ()))
    found = analyze.found(analyze.summaries_of([batch_of(inputs, rows)]))
    return Statistics(code="", features=completed(inputs, {}, found))


def batch_of(inputs: Inputs, rows: Rows) -> pa.RecordBatch:
    """Returns rows as ingestion's workers write them."""
    kinds = {"int": pa.int64(), "float": pa.float32(), "string": pa.large_binary()}
    types = {column.name: pa.list_(kinds[column.type]) for column in columns(inputs)}
    values = [pa.array([row.get(name) or None for row in rows], of) for name, of in types.items()]
    return pa.RecordBatch.from_arrays(values, list(types))


def config_of(inputs: Inputs, statistics: Statistics) -> dict[str, Any]:
    """Returns the custom_config of preprocessing_fn."""
    return {"inputs": inputs.model_dump_json(), "statistics": statistics.model_dump_json()}


def analyzed(
    inputs: Inputs, rows: Rows, statistics: Statistics | None = None
) -> tuple[list[dict[str, Any]], tft.TFTransformOutput]:
    """Returns the transformed rows and the function that Transform saved."""
    statistics = statistics or statistics_of(inputs, rows)
    config = config_of(inputs, statistics)
    metadata = metadata_of(inputs)

    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        return preprocessing_fn(batch, config)

    directory = tempfile.mkdtemp()
    _TRANSFORMED.clear()
    with beam.Pipeline(argv=list(BEAM_ARGS)) as pipeline, tft_beam.Context(temp_dir=tempfile.mkdtemp()):
        created = pipeline | beam.Create(rows, reshuffle=False)
        (data, _), saved = (created, metadata) | tft_beam.AnalyzeAndTransformDataset(transform)
        _ = data | beam.Map(_keep)
        _ = saved | tft_beam.WriteTransformFn(directory)
    metadata_io.write_metadata(metadata, f"{directory}/{tft.TFTransformOutput.RAW_METADATA_DIR}")
    Path(directory, FILE_NAME).write_text(statistics.model_dump_json(), encoding="utf-8")
    return list(_TRANSFORMED), tft.TFTransformOutput(directory)

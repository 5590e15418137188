"""Computes exact statistics of features over the training split, with TensorFlow Transform."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam

from schemas.contracts.statistics import Analyzed, Boundaries, Scale
from schemas.derived.columns import columns, feature_columns
from schemas.spec import Inputs
from schemas.spec.features import BucketsFeature

StatisticsFn = Callable[..., dict[str, tf.Tensor]]
"""`trainer_module.transforms.preprocessing.statistics_fn`, imported by its dotted path."""
_TYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}


def read_columns(inputs: Inputs, names: Sequence[str]) -> list[str]:
    """Returns the columns that the analysis of features reads."""
    return sorted({column.name for name in names for column in feature_columns(inputs, name)})


def analyzed(
    pipeline: beam.Pipeline,
    dataset: Callable[[beam.Pipeline], Any],
    statistics_fn: StatisticsFn,
    inputs: Inputs,
    names: Sequence[str],
    directory: str,
) -> dict[str, Analyzed]:
    """Runs a pipeline over the training split and returns the statistics of each feature.

    Args:
        pipeline: empty.
        dataset: adds the rows to the pipeline, and returns them with their metadata, for AnalyzeDataset.
        statistics_fn: see `trainer_module.transforms.preprocessing`.
        inputs: of the spec.
        names: of the features to analyze; if empty, nothing runs.
        directory: for temporary files, which the caller removes.
    """
    if not names:
        return {}
    config = {"inputs": inputs.model_dump_json(), "features": list(names)}
    result = os.path.join(directory, "found")
    with pipeline, tft_beam.Context(temp_dir=os.path.join(directory, "temporary"), use_deep_copy_optimization=True):
        analyze = tft_beam.AnalyzeDataset(functools.partial(statistics_fn, custom_config=config))
        _ = dataset(pipeline) | "Analyze" >> analyze | "WriteAnalysis" >> tft_beam.WriteTransformFn(result)
    return _read(result, inputs, names)


def _read(directory: str, inputs: Inputs, names: Sequence[str]) -> dict[str, Analyzed]:
    """Returns the results of an analysis: they are the same for every row, so an empty one gives them."""
    types = {column.name: _TYPES[column.type] for column in columns(inputs)}
    row = {
        column: tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], types[column]), [1, 0])
        for column in read_columns(inputs, names)
    }
    saved = tft.TFTransformOutput(directory).transform_raw_features(row)
    return {name: _found(inputs, name, [float(x) for x in saved[name][0].numpy()]) for name in names}


def _found(inputs: Inputs, name: str, values: list[float]) -> Analyzed:
    if isinstance(inputs.features[name], BucketsFeature):
        return Boundaries(lowest=tuple(values))
    offset, width = values
    return Scale(offset=offset, width=width)

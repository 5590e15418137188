"""Computes statistics of features over the training split, as TensorFlow Transform does: exact, in one pass."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam

from schemas.columns import columns, feature_columns
from schemas.features import BucketsFeature
from schemas.spec import Inputs
from schemas.statistics import Boundaries, Found, Scale

StatisticsFn = Callable[..., dict[str, tf.Tensor]]
"""`trainer_module.preprocessing.statistics_fn`, by its dotted path."""
_TYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}


def read_columns(inputs: Inputs, names: Sequence[str]) -> list[str]:
    """Returns the columns that the analysis of features reads."""
    return sorted({column.name for name in names for column in feature_columns(inputs, name)})


def write_analysis(dataset: Any, statistics_fn: StatisticsFn, inputs: Inputs, names: Sequence[str], to: str) -> None:
    """Adds the analysis to a pipeline, within a Context of TensorFlow Transform.

    Args:
        dataset: rows of the training split and their metadata, as AnalyzeDataset takes them.
        statistics_fn: see `trainer_module.preprocessing`.
        inputs: what the columns mean.
        names: of the features to analyse.
        to: folder for the result.
    """
    config = {"inputs": inputs.model_dump_json(), "features": list(names)}
    found = dataset | "Analyse" >> tft_beam.AnalyzeDataset(functools.partial(statistics_fn, custom_config=config))
    _ = found | "WriteAnalysis" >> tft_beam.WriteTransformFn(to)


def read_analysis(directory: str, inputs: Inputs, names: Sequence[str]) -> dict[str, Found]:
    """Returns what an analysis that has run has found, by feature.

    It is the same for every row, so for an empty one.
    """
    types = {column.name: _TYPES[column.type] for column in columns(inputs)}
    row = {
        column: tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], types[column]), [1, 0])
        for column in read_columns(inputs, names)
    }
    saved = tft.TFTransformOutput(directory).transform_raw_features(row)
    return {name: _found(inputs, name, [float(x) for x in saved[name][0].numpy()]) for name in names}


def _found(inputs: Inputs, name: str, values: list[float]) -> Found:
    if isinstance(inputs.features[name], BucketsFeature):
        return Boundaries(lowest=tuple(values))
    offset, width = values
    return Scale(offset=offset, width=width)

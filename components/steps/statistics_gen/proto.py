"""Writes statistics as TFDV does: its tools and TFX's components read them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_data_validation import types
from tensorflow_data_validation.utils import quantiles_util
from tensorflow_metadata.proto.v0 import statistics_pb2

from sangam.components.examples.summaries import Points, at_most, boundaries
from sangam.components.steps.statistics_gen.column import Column, Numbers, Texts
from sangam.components.steps.statistics_gen.histograms import of_equal_widths, of_quantiles

_LENGTH_BUCKETS, _EQUAL_BUCKETS = 10, 10
_FINE = 100
"""Quantiles for each bucket of the quantile histogram; buckets of equal width are derived from them."""
_TOP_VALUES, _RANKED_VALUES = 20, 1000
_TYPES = {
    "int": statistics_pb2.FeatureNameStatistics.INT,
    "float": statistics_pb2.FeatureNameStatistics.FLOAT,
    "string": statistics_pb2.FeatureNameStatistics.STRING,
}


def to_proto(columns: Sequence[Column], rows: int, num_quantiles: int) -> statistics_pb2.DatasetFeatureStatisticsList:
    """Returns the statistics of a split.

    Args:
        columns: columns of the split.
        rows: rows of the split.
        num_quantiles: buckets of the quantile histograms.
    """
    found = statistics_pb2.DatasetFeatureStatisticsList()
    dataset = found.datasets.add(num_examples=rows)
    for column in columns:
        path = types.FeaturePath([column.name])
        # Filled where it lies: a thousand values of each column would be copied with each message around them.
        _fill(dataset.features.add(type=_TYPES[column.type], path=path.to_proto()), column, rows, num_quantiles)
    return found


def _fill(feature: statistics_pb2.FeatureNameStatistics, column: Column, rows: int, num_quantiles: int) -> None:
    common = _common(column, rows)
    if column.texts is not None:
        _fill_strings(feature.string_stats, column.texts, common.tot_num_values)
        feature.string_stats.common_stats.CopyFrom(common)
    if column.numbers is not None:
        feature.num_stats.CopyFrom(_numbers(column.numbers, num_quantiles))
        feature.num_stats.common_stats.CopyFrom(common)


def _common(column: Column, rows: int) -> statistics_pb2.CommonStatistics:
    present = sum(column.lengths.values())
    common = statistics_pb2.CommonStatistics(num_non_missing=present, num_missing=rows - present)
    if present:
        lengths = sorted(column.lengths)
        common.min_num_values, common.max_num_values = lengths[0], lengths[-1]
        common.tot_num_values = sum(length * count for length, count in column.lengths.items())
        common.avg_num_values = common.tot_num_values / present
        points = Points(np.array(lengths), np.array([column.lengths[length] for length in lengths], np.float64))
        common.num_values_histogram.CopyFrom(of_quantiles(*_quantiles(points, _LENGTH_BUCKETS)))
    return common


def _fill_strings(found: statistics_pb2.StringStatistics, texts: Texts, values: int) -> None:
    found.avg_length = texts.bytes / values if values else 0.0
    found.invalid_utf8_count = texts.not_utf8
    values_N, counts_N = texts.counted.Estimate().flatten()
    if not len(values_N):
        return
    found.unique = texts.distinct.Estimate()
    counted = pa.table([values_N.cast(pa.string()), counts_N], ["value", "count"])
    # Of equally frequent values the last one comes first, as in TFDV.
    largest = [("count", "descending"), ("value", "descending")]
    frequent = counted.take(pc.select_k_unstable(counted, k=_RANKED_VALUES, sort_keys=largest)).to_pydict()
    ranked = list(enumerate(zip(frequent["value"], frequent["count"], strict=True)))
    for _, (value, count) in ranked[:_TOP_VALUES]:
        found.top_values.add(value=value, frequency=count)
    add = found.rank_histogram.buckets.add
    for rank, (value, count) in ranked:
        add(low_rank=rank, high_rank=rank, sample_count=count, label=value)


def _numbers(numbers: Numbers, num_quantiles: int) -> statistics_pb2.NumericStatistics:
    points, moments = numbers.quantiles.points(), numbers.moments
    found = statistics_pb2.NumericStatistics()
    if points.values_N.size:
        # As in TFDV: an infinite number makes the mean infinite or undefined, and the deviation 0.
        is_finite = not (numbers.negative_infinite or numbers.positive_infinite)
        infinite = (np.inf if numbers.positive_infinite else 0.0) - (np.inf if numbers.negative_infinite else 0.0)
        found.mean = moments.mean if is_finite else infinite
        found.std_dev = moments.deviation if is_finite else 0.0
        found.num_zeros = numbers.zeros
        found.min = -np.inf if numbers.negative_infinite else min(moments.low, np.inf)
        found.max = np.inf if numbers.positive_infinite else moments.high
        quantiles, counts = _quantiles(points, _FINE * num_quantiles)
        # The outer points are not the bounds if there are fewer points than numbers.
        quantiles[0], quantiles[-1] = found.min, found.max
        found.median = float(quantiles_util.find_median(quantiles))
        equal = of_equal_widths(
            quantiles,
            counts,
            low=moments.low,
            high=moments.high,
            num=_EQUAL_BUCKETS,
            infinite=numbers.positive_infinite,
        )
        coarse = quantiles_util.rebin_quantiles(quantiles, counts, _FINE)
        found.histograms.extend([equal, of_quantiles(*coarse)])
    elif numbers.nan:
        kinds = statistics_pb2.Histogram
        found.histograms.extend([kinds(type=kinds.STANDARD), kinds(type=kinds.QUANTILES)])
    for histogram in found.histograms:
        histogram.num_nan = numbers.nan
    return found


def _quantiles(points: Points, num: int) -> tuple[Any, Any]:
    """Returns bounds of equally many values, from the least to the largest, and the number of values up to each."""
    values = np.concatenate([points.values_N[:1], boundaries(points, num), points.values_N[-1:]]).astype(np.float64)
    return values, at_most(points, values)

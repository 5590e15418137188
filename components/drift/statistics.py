"""What is compared of the statistics of a split, in the form of TFX's StatisticsGen."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
from tensorflow_metadata.proto.v0 import statistics_pb2

from sangam.components.drift.distances import Floats

Feature: TypeAlias = statistics_pb2.FeatureNameStatistics
Edges = tuple[Floats, Floats]
"""Ascending numbers, and the share of all numbers that is at most each."""


def by_column(statistics: statistics_pb2.DatasetFeatureStatisticsList) -> Mapping[str, Feature]:
    """Returns the statistics of each column."""
    (dataset,) = statistics.datasets
    return {feature.path.step[0]: feature for feature in dataset.features}


def common_of(feature: Feature) -> statistics_pb2.CommonStatistics:
    """Returns what numbers and texts have in common."""
    return getattr(feature, feature.WhichOneof("stats") or "num_stats").common_stats


def missing_share(feature: Feature) -> float:
    """Returns the share of the rows without a value; 1 without rows."""
    stats = common_of(feature)
    total = stats.num_missing + stats.num_non_missing
    return stats.num_missing / total if total else 1.0


def value_shares(feature: Feature) -> dict[str, float]:
    """Returns the shares of the most frequent texts or ids; empty without any."""
    total = feature.string_stats.common_stats.tot_num_values
    return {bucket.label: bucket.sample_count / total for bucket in feature.string_stats.rank_histogram.buckets}


def cumulative(feature: Feature) -> Edges | None:
    """Returns the numbers of a column; None without any."""
    kinds = statistics_pb2.Histogram
    found = [each.buckets for each in feature.num_stats.histograms if each.type == kinds.QUANTILES]
    return edges_of(found[0]) if found else None


def lengths(feature: Feature) -> Edges | None:
    """Returns the numbers of values of the rows that have any; None without such rows."""
    return edges_of(common_of(feature).num_values_histogram.buckets)


def edges_of(buckets: Iterable[statistics_pb2.Histogram.Bucket]) -> Edges | None:
    """Returns the edges of the buckets of quantiles; None if they are empty."""
    buckets = list(buckets)
    total = sum(bucket.sample_count for bucket in buckets)
    if not total:
        return None
    # A frequent value is the edge of several buckets: its cumulative share is that of the last one.
    at_most = {buckets[0].low_value: 0.0}
    so_far = 0.0
    for bucket in buckets:
        so_far += bucket.sample_count
        at_most[bucket.high_value] = so_far / total
    return np.array(list(at_most)), np.array(list(at_most.values()))

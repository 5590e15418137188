"""Makes the file with which servers compare what they are asked: of statistics, an evaluation and a spec's bounds."""

import numpy as np
from tensorflow_metadata.proto.v0 import statistics_pb2

from sangam.components.drift import statistics as stats
from sangam.components.drift.distances import Floats, cuts_of, shares_of
from sangam.components.drift.hashing import hash_of_text
from sangam.components.reports.curves import Curve
from sangam.schemas.contracts.drift_reference import LEAST_SHARE, Bins, ColumnReference, DriftReference, Values
from sangam.schemas.derived.columns import drifting_columns, serving_columns
from sangam.schemas.host.splitmix64 import mix64
from sangam.schemas.parts.columns import ColumnType
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.drift import Drift, Measure, measures_of


def reference_of(
    inputs: Inputs,
    drift: Drift | None,
    train: statistics_pb2.DatasetFeatureStatisticsList,
    curves: dict[str, Curve],
) -> DriftReference:
    """Returns the reference of a model.

    Args:
        inputs: features of the spec.
        drift: bounds of the spec.
        train: statistics of the training split.
        curves: distribution of the scores on the evaluation split, by task.
    """
    by_column = stats.by_column(train)
    measures, bounds = _measures(inputs), _bounds(inputs, drift)
    return DriftReference(
        rows=train.datasets[0].num_examples,
        columns={
            column.name: _column(
                by_column[column.name], column.type, column.is_list, measures[column.name], bounds.get(column.name, {})
            )
            for column in serving_columns(inputs)
            if column.name in by_column and column.name in measures
        },
        scores={task: _scores(curve) for task, curve in curves.items()},
    )


def _measures(inputs: Inputs) -> dict[str, frozenset[Measure]]:
    """Returns which distances apply to each column: those of any feature that reads it."""
    found: dict[str, frozenset[Measure]] = {}
    for name, feature in inputs.features.items():
        for column in drifting_columns(inputs, name):
            found[column.name] = found.get(column.name, frozenset()) | frozenset(measures_of(feature))
    return found


def _bounds(inputs: Inputs, drift: Drift | None) -> dict[str, dict[Measure, float]]:
    """Returns the bounds of each column: the smallest of the features that read it."""
    found: dict[str, dict[Measure, float]] = {}
    for name, feature in inputs.features.items() if drift else ():
        assert drift is not None
        bounds = drift.bounds_of(name, measures_of(feature))
        declared: dict[Measure, float] = {
            measure: bound for measure in measures_of(feature) if (bound := getattr(bounds, measure)) is not None
        }
        for column in drifting_columns(inputs, name):
            own = found.setdefault(column.name, {})
            own |= {measure: min(bound, own.get(measure, 1.0)) for measure, bound in declared.items()}
    return found


def _column(
    feature: stats.Feature,
    kind: ColumnType,
    is_list: bool,
    measures: frozenset[Measure],
    bounds: dict[Measure, float],
) -> ColumnReference:
    numbers = stats.cumulative(feature) if "jensen_shannon" in measures else None
    lengths = stats.lengths(feature) if is_list else None
    return ColumnReference(
        type=kind,
        missing=stats.missing_share(feature),
        numbers=_bins(*numbers) if numbers else None,
        values=_values(feature, kind) if "l_infinity" in measures else None,
        lengths=_bins(*lengths) if lengths else None,
        bounds=bounds,
    )


def _values(feature: stats.Feature, kind: ColumnType) -> Values | None:
    shares = stats.value_shares(feature)
    if not shares:
        return None
    kept = sorted((_hash(text, kind), share) for text, share in shares.items() if share >= LEAST_SHARE)
    return Values(hashes=tuple(each for each, _ in kept), shares=tuple(share for _, share in kept))


def _hash(text: str, kind: ColumnType) -> int:
    if kind == "int":
        return int(mix64(np.array([int(text)], np.int64).view(np.uint64))[0])
    return hash_of_text(text.encode())


def _scores(curve: Curve) -> Bins:
    counts = np.array(curve.negatives) + np.array(curve.positives)
    return _bins(np.array(curve.score_edges), np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum())


def _bins(edges: Floats, at_most: Floats) -> Bins:
    cuts = cuts_of(edges, at_most)
    shares = np.clip(shares_of(cuts, edges, at_most), 0.0, 1.0)
    return Bins(cuts=tuple(cuts.tolist()), shares=tuple(shares.tolist()))

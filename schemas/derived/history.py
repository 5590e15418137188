"""Features of the days before a row's own: the days that they need, and the features that share a table."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from sangam.schemas.parts.columns import IdType
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.features import HistoryFeature, RateFeature

Day = datetime.date
By = tuple[tuple[str, IdType], ...]
"""Columns and the types of their ids, sorted by column."""


@dataclass(frozen=True)
class HistoryGroup:
    """Features of the same ids and days: they share the keys of a table.

    Attributes:
        by: columns of the ids whose history it is.
        days: number of days before the row's own; None: all of the run's window.
        features: names, in the spec's order.
    """

    by: By
    days: int | None
    features: tuple[str, ...]


def history_features(inputs: Inputs) -> dict[str, HistoryFeature]:
    """Returns the features of earlier days by name."""
    return {name: each for name, each in inputs.features.items() if isinstance(each, HistoryFeature)}


def by_of(feature: HistoryFeature) -> By:
    """Returns the columns of a feature's ids."""
    return tuple(sorted(feature.by.items()))


def history_groups(inputs: Inputs) -> tuple[HistoryGroup, ...]:
    """Returns the groups of features that share a table, in the spec's order."""
    members: dict[tuple[By, int | None], list[str]] = {}
    for name, feature in history_features(inputs).items():
        members.setdefault((by_of(feature), feature.days), []).append(name)
    return tuple(HistoryGroup(by, days, tuple(names)) for (by, days), names in members.items())


def counted(inputs: Inputs) -> dict[By, tuple[str, ...]]:
    """Returns the counts of each day: the tasks whose labels are summed, by the columns of the ids."""
    tasks: dict[By, dict[str, None]] = {}
    for feature in history_features(inputs).values():
        of_ids = tasks.setdefault(by_of(feature), {})
        if isinstance(feature, RateFeature):
            of_ids[feature.task] = None
    return {by: tuple(sorted(names)) for by, names in tasks.items()}


def days_of_history(inputs: Inputs, window: Sequence[Day], first: Day) -> list[Day]:
    """Returns the days that a run reads only for their counts, oldest first; none if no feature needs any.

    Args:
        inputs: inputs of the spec.
        window: the run's train days, also those that its base has learned, oldest first.
        first: the first day that the run trains on.
    """
    features = history_features(inputs).values()
    if not features or not window:
        return []
    starts = [window[0] if each.days is None else first - datetime.timedelta(days=each.days) for each in features]
    return [first - datetime.timedelta(days=before) for before in range((first - min(starts)).days, 0, -1)]

"""How often binary labels are 1, how much that differs from day to day, and how much other labels differ."""

from collections.abc import Iterable, Mapping
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from sangam.pipelines.drafting.values import Values

FEWEST_DAYS = 5
"""Fewest days whose shares say how much they differ."""


class Rate(NamedTuple):
    """The share of 1 in a label.

    Attributes:
        share: of all rows with the label.
        swing: standard deviation of the days' own shares, without their trend and what their number of rows explains,
            over `share`; 0 where too few days are known.
    """

    share: float
    swing: float

    @property
    def rarer(self) -> float:
        """Share of the rarer of 0 and 1."""
        return min(self.share, 1 - self.share)


def rates_of(labels: Iterable[str], columns: Mapping[str, Values], days: Any) -> dict[str, Rate]:
    """Returns the rates of the binary labels.

    Args:
        labels: columns of labels.
        columns: columns of the sample.
        days: day of each row; None where it is not known.
    """
    binary = {name: columns[name] for name in labels if columns[name].is_binary}
    return {name: Rate(_share(values), _swing(values, days)) for name, values in binary.items()}


def deviations_of(labels: Iterable[str], columns: Mapping[str, Values]) -> dict[str, float]:
    """Returns the standard deviations of the labels that are not binary."""
    return {name: float(columns[name].present_numbers.std()) for name in labels if not columns[name].is_binary}


def _share(values: Values) -> float:
    return float(values.present_numbers.mean())


def _swing(values: Values, days: Any) -> float:
    if days is None:
        return 0.0
    place = np.unique(days[values.is_present], return_inverse=True)[1]
    rows = np.bincount(place)
    share = _share(values)
    if len(rows) < FEWEST_DAYS or not 0 < share < 1:
        return 0.0
    shares = np.bincount(place, weights=values.present_numbers) / rows
    by_chance = (share * (1 - share) / rows).mean()
    # Of neighbors, so that a trend does not count (von Neumann, 1941).
    variance = (np.diff(shares) ** 2).mean() / 2
    return sqrt(max(0.0, float(variance - by_chance))) / share

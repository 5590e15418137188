"""Numbers that are rates of ids, such as how often a post was clicked before: they say what the id's row would learn.

Told by their values, whatever their names. A rate lies between the least and the largest value of a label, rows of
an id that follow each other agree in it while ids of one day differ, and ids with a higher one have the label more
often, or less often, as with how often a post was skipped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sangam.pipelines.drafting.guesses import Guess
from sangam.pipelines.drafting.values import Values

_MOST_IDS = 16
"""Most columns of ids that each number is compared with: those with the most different ids."""
_FEWEST_IDS, _ROWS_OF_ID = 20, 5
"""Fewest ids, and fewest rows of each, whose mean labels a number is compared with."""
_AGREE = 0.25
"""Most variance between an id's successive rows, over the variance within days."""
_FOLLOWS = 0.5
"""Least correlation, of either sign, of the ids' means of the number and of the label, without chance in the latter."""
_SURE = 3.0
"""Standard deviations by which the correlation differs from 0."""
_FRACTIONS = 0.5
"""Share of numbers with a fraction above which they are no flags or counts."""
_EQUAL = 1e-9
"""Variance within days, over the mean square, of numbers that are the same in all rows of a day."""
_MOVES = 0.5
"""Least share of ids with several values, where a label is not 0 or 1: a duration has the scale of a watch time."""

# Shape suffixes: R rows, I ids.


@dataclass(frozen=True)
class _Ids:
    """The ids of a column: name of the feature, number of each row's id, and day of each row, if it is known."""

    name: str
    codes_R: Any
    days_R: Any

    @cached_property
    def _order_R(self) -> Any:
        order_R = np.argsort(self.codes_R, kind="stable")
        if self.days_R is not None:
            order_R = np.lexsort((self.days_R, self.codes_R))
        return order_R[self.codes_R[order_R] >= 0]

    def rows_with(self, values: Values) -> Any:
        """Returns the places of the rows that have an id and a value, by id, then by day."""
        return self._order_R[values.is_present[self._order_R]]

    def days_of(self, rows_R: Any) -> Any:
        """Returns the days of rows; 0 where they are not known."""
        return np.zeros(len(rows_R), np.int64) if self.days_R is None else self.days_R[rows_R]


def rates_of_ids(
    features: Sequence[Guess], labels: Iterable[str], columns: Mapping[str, Values], days: Any
) -> dict[str, str]:
    """Returns the columns of numbers that are rates of an id, each with what shows it.

    Args:
        features: features of the draft.
        labels: columns of labels.
        columns: columns of the sample.
        days: day of each row; None where it is not known.
    """
    targets = {name: columns[name] for name in labels if columns[name].num_different > 1}
    numbers = {each.column: columns[each.column] for each in features if each.kind == "numeric"}
    near = {name: _on_scale(values, targets) for name, values in numbers.items()}
    if not any(near.values()):
        return {}
    every = [each for each in features if each.kind == "id" and columns[each.column].num_different >= _FEWEST_IDS]
    every = sorted(every, key=lambda each: -columns[each.column].num_different)[:_MOST_IDS]
    days_R = np.unique(days, return_inverse=True)[1] if days is not None else None
    ids = [_Ids(each.name, columns[each.column].codes, days_R) for each in every]
    found = {name: _rate_of(numbers[name], ids, of_it) for name, of_it in near.items() if of_it}
    return {column: why for column, why in found.items() if why}


def _on_scale(values: Values, labels: Mapping[str, Values]) -> dict[str, Values]:
    """Returns the labels in whose range the numbers are; none where most are whole: flags, and counts."""
    numbers = values.present_numbers
    if not len(numbers) or float((numbers % 1 != 0).mean()) <= _FRACTIONS:
        return {}
    ranges = {name: (each.present_numbers.min(), each.present_numbers.max()) for name, each in labels.items()}
    return {
        name: labels[name] for name, (low, high) in ranges.items() if low <= numbers.min() and numbers.max() <= high
    }


def _rate_of(values: Values, every: Sequence[_Ids], labels: Mapping[str, Values]) -> str:
    """Returns the id and the label of which the number is a rate, in words; empty if it is of none."""
    agreeing = sorted(((_disagreement(values, ids), place) for place, ids in enumerate(every)))
    for share, place in agreeing:
        ids = every[place]
        rows_R = ids.rows_with(values)
        codes_R, numbers_R = ids.codes_R[rows_R], values.numbers[rows_R]
        for name, label in labels.items():
            if share > _AGREE or not (label.is_binary or _moves(codes_R, numbers_R)):
                continue
            known_R = label.is_present[rows_R]
            follows = _follows(codes_R[known_R], numbers_R[known_R], label.numbers[rows_R][known_R])
            if abs(follows) >= _FOLLOWS:
                return f"{ids.name}: the mean {name} of its ids follows it, correlation {follows:.2f}"
    return ""


def _disagreement(values: Values, ids: _Ids) -> float:
    """Returns the variance between successive rows of an id over that within days; infinite without either."""
    rows_R = ids.rows_with(values)
    numbers_R, day_R = values.numbers[rows_R], ids.days_of(rows_R)
    is_same_R = np.diff(ids.codes_R[rows_R]) == 0
    if not is_same_R.any():
        return np.inf
    means_R = (np.bincount(day_R, numbers_R) / np.maximum(np.bincount(day_R), 1))[day_R]
    within_days = float(((numbers_R - means_R) ** 2).mean())
    if within_days <= _EQUAL * float((numbers_R**2).mean()):
        return np.inf
    return float((np.diff(numbers_R)[is_same_R] ** 2).mean()) / 2 / within_days


def _moves(codes_R: Any, numbers_R: Any) -> bool:
    """Returns whether most ids with several rows have several values: an attribute, such as a duration, has one."""
    is_same_R = np.diff(codes_R) == 0
    of_several = np.unique(codes_R[1:][is_same_R])
    moving = np.unique(codes_R[1:][is_same_R & (np.diff(numbers_R) != 0)])
    return len(moving) >= _MOVES * len(of_several)


def _follows(codes_R: Any, numbers_R: Any, labels_R: Any) -> float:
    """Returns the correlation of the ids' means, by rows, without what chance adds to the label's; 0 where it may be
    chance itself."""
    rows_I = np.bincount(codes_R)
    is_used_I = rows_I >= _ROWS_OF_ID
    if is_used_I.sum() < _FEWEST_IDS:
        return 0.0
    rows_I = rows_I[is_used_I]
    number_I, label_I, square_I = (
        np.bincount(codes_R, each_R)[is_used_I] / rows_I for each_R in (numbers_R, labels_R, labels_R**2)
    )
    weight_I = rows_I / rows_I.sum()
    of_number, both, total = np.cov(number_I, label_I, aweights=weight_I, ddof=0)[[0, 0, 1], [0, 1, 1]]
    chance = float((weight_I * (square_I - label_I**2) / (rows_I - 1)).sum())
    if of_number <= 0 or total <= chance:
        return 0.0
    correlation = float(both / np.sqrt(of_number * total))
    is_sure = abs(correlation) >= _SURE * np.sqrt((weight_I**2).sum())
    return float(np.clip(correlation / np.sqrt(1 - chance / total), -1, 1)) if is_sure else 0.0

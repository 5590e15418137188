"""Codes and amounts: integers that name something, told from integers that count or measure something.

An amount's neighbors are alike: they occur about equally often, and their rows have about the same labels. Codes are
names: what occurs beside them says nothing of them. No sign decides alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.pipelines.drafting.names import AGGREGATES, AMOUNTS, ITEMS, USERS, entity_of, is_action, words_of
from sangam.pipelines.drafting.values import Values

MOST_BINS = 64
"""Bins of a number by default: up to as many different numbers have a bin each, so that a code loses nothing."""
FEW_BINS = 16
"""Bins of a number that may be a code."""
_FEWEST_ROWS = 1000
_MOST_ROWS = 50_000
_ROWS_OF_CATEGORIES = 10_000
_SURE = 5.0
"""Standard deviations from which a statistic of the labels counts."""
_ROUGH_SHARE, _SMOOTH_SHARE = 0.5, 0.25
"""Of the variance of the labels between values, the part that neighbors do not share: of a code at least the first, of
an amount at most the second."""
_UNLIKE = 2.0
"""Median of (a - b)^2 / (a + b) for the rows a and b of neighbors: 0.45 for counts around one mean."""
_UNLIKE_SHARE = 0.2
"""Median of |a - b| / (a + b): with many rows, neighbors of an amount differ by more than chance, but not by this."""
_ARBITRARY = 0.5
"""Different numbers in a range, of those that as many rows would have if all its integers were equally likely."""
_RISES, _LATER_ABOVE, _FEWEST_STEPS, _PARTS = 0.95, 0.75, 100, 100
"""Of a count of an id's rows: least share of steps up, between rows that are a hundredth of all apart, and fewest
steps; most of later rows' numbers that are above those of earlier rows."""
_WINDOW, _GROUPS = 20, 8
_PURE, _NONE = 0.98, 0.5
"""Shares of the rows: with their number's category, and with 0, an amount of nothing."""

# Shape suffixes: R rows; D different numbers, ascending; P pairs of them; W windows, G groups of consecutive ones.


@dataclass(frozen=True)
class Signs:
    """What a column of integers shows.

    Attributes:
        of_code: signs of a code, in words.
        of_amount: signs of an amount, in words.
    """

    of_code: tuple[str, ...]
    of_amount: tuple[str, ...]

    @property
    def is_code(self) -> bool:
        """Whether at least two signs more speak for a code than for an amount."""
        return len(self.of_code) - len(self.of_amount) >= 2

    @property
    def may_be_code(self) -> bool:
        """Whether one sign speaks for a code, and none for an amount."""
        return len(self.of_code) == 1 and not self.of_amount


NO_SIGNS = Signs((), ())


def signs_of(column: str, columns: Mapping[str, Values], labels: Mapping[str, str]) -> Signs:
    """Returns the signs of a column of integers; none where it has few different numbers, or few rows.

    Args:
        column: its name.
        columns: all columns of the sample.
        labels: names of the labels.
    """
    values = columns[column]
    rows_R = np.flatnonzero(values.is_present)
    if len(rows_R) < _FEWEST_ROWS or values.num_different <= MOST_BINS:
        return NO_SIGNS
    numbers_R = values.numbers[rows_R]
    if (numbers_R % 1).any() or 2 * values.num_different > len(rows_R):
        return NO_SIGNS
    signs = _signs(column, columns, labels, rows_R)
    if (signs.is_code or signs.may_be_code) and (other := next(_counted(column, columns, rows_R), "")):
        return Signs((), (f"rises with the rows of each {other}",))
    for other in _entities(column, columns):
        if not (signs.is_code or signs.may_be_code):
            return signs
        # A property of an entity, such as its age, repeats with its rows: once for each entity it must show the same.
        signs = _fewer(signs, _signs(column, columns, labels, _once(columns[other], values, rows_R)))
    return signs


def _signs(column: str, columns: Mapping[str, Values], labels: Mapping[str, str], rows_R: NDArray[Any]) -> Signs:
    """Returns the signs of some rows of a column."""
    if len(rows_R) > _MOST_ROWS:
        rows_R = rows_R[np.linspace(0, len(rows_R) - 1, _MOST_ROWS).astype(np.int64)]
    numbers_D, place_R, counts_D = np.unique(columns[column].numbers[rows_R], return_inverse=True, return_counts=True)
    if len(numbers_D) <= MOST_BINS or 2 * len(numbers_D) > len(rows_R) or _grows(numbers_D):
        return NO_SIGNS
    numbers_D = numbers_D.astype(np.int64) // max(1, int(np.gcd.reduce(numbers_D.astype(np.int64))))
    of_code: list[str] = []
    of_amount: list[str] = []
    if _is_arbitrary(numbers_D, counts_D) or _is_uneven(numbers_D, counts_D):
        of_code.append("neighbors occur unequally often")
    told = {_of_label(place_R, columns[label].numbers[rows_R]) for label in labels if label in columns}
    if "rough" in told:
        of_code.append("neighbors differ in their labels")
    elif "smooth" in told:
        of_amount.append("neighbors have like labels")
    if counts_D[numbers_D == 0].sum() >= _NONE * len(rows_R):
        of_amount.append("mostly 0")
    if _is_round(numbers_D, counts_D):
        of_amount.append("round numbers")
    if (AMOUNTS | AGGREGATES) & set(words_of(column)) or is_action(column):
        of_amount.append("named as an amount")
    # Many columns are compared: only where it decides.
    if len(of_code) >= len(of_amount) and (other := next(_determined(column, columns, place_R, rows_R), "")):
        of_code.append(f"each has one {other}")
    return Signs(tuple(of_code), tuple(of_amount))


def _entities(column: str, columns: Mapping[str, Values]) -> Iterator[str]:
    """Yields the columns of users, items and the like."""
    for name, values in columns.items():
        is_named = bool(entity_of(name)) or bool((USERS | ITEMS) & set(words_of(name)))
        is_finer = values.kind == "string" and values.num_different >= columns[column].num_different
        if name != column and not values.is_list and values.kind in ("int", "string") and (is_named or is_finer):
            yield name


def _counted(column: str, columns: Mapping[str, Values], rows_R: NDArray[Any]) -> Iterator[str]:
    """Yields the columns of whose ids the numbers may be counts: from row to row of an id they only rise, but not from
    early to late rows, as ids do that are given in the order of time."""
    numbers_R = columns[column].numbers[rows_R]
    half = len(rows_R) // 2
    if (numbers_R[half : 2 * half] > numbers_R[:half]).mean() > _LATER_ABOVE:
        return
    for name, values in columns.items():
        if name == column or values.is_list or values.kind not in ("int", "string"):
            continue
        codes_R = values.codes[rows_R]
        order = np.argsort(codes_R, kind="stable")
        is_id = (np.diff(codes_R[order]) == 0) & (codes_R[order][1:] >= 0)
        # Not between neighbors: the rows of one basket may be sorted.
        steps = np.diff(numbers_R[order])[is_id & (np.diff(order) > len(order) // _PARTS)]
        steps = steps[steps != 0]
        if len(steps) >= _FEWEST_STEPS and (steps > 0).mean() >= _RISES:
            yield name


def _once(entity: Values, values: Values, rows_R: NDArray[Any]) -> NDArray[Any]:
    """Returns a row for each pair of an entity and a number."""
    pairs_R = entity.codes[rows_R] * np.int64(values.num_different + 1) + values.codes[rows_R]
    return rows_R[np.sort(np.unique(pairs_R, return_index=True)[1])]


def _fewer(signs: Signs, others: Signs) -> Signs:
    of_amount = (*signs.of_amount, *(each for each in others.of_amount if each not in signs.of_amount))
    of_code = tuple(each for each in signs.of_code if each in others.of_code)
    return Signs(of_code, of_amount)


def _is_arbitrary(numbers_D: NDArray[np.int64], counts_D: NDArray[np.int64]) -> bool:
    """Returns whether few numbers occur, and these often, among many between them that do not."""
    starts_W = np.arange(0, len(numbers_D) - _WINDOW, _WINDOW)
    width_W = (numbers_D[starts_W + _WINDOW] - numbers_D[starts_W]).astype(np.float64)
    rows_W = np.add.reduceat(counts_D, starts_W)[: len(starts_W)].astype(np.float64)
    rows_W[-1] = counts_D[starts_W[-1] : starts_W[-1] + _WINDOW].sum()
    expected_W = -width_W * np.expm1(-rows_W / width_W)
    return bool(np.median(_WINDOW / expected_W) < _ARBITRARY)


def _is_uneven(numbers_D: NDArray[np.int64], counts_D: NDArray[np.int64]) -> bool:
    """Returns whether neighbors occur more unequally often than by chance; only those with one last digit are compared,
    since amounts are rounded."""
    ordered = counts_D[np.lexsort([numbers_D, numbers_D % 10])].astype(np.float64)
    first_P, second_P = ordered[: len(ordered) // 2 * 2].reshape(-1, 2).T
    difference_P, sum_P = np.abs(first_P - second_P), first_P + second_P
    return bool(np.median(difference_P**2 / sum_P) > _UNLIKE and np.median(difference_P / sum_P) > _UNLIKE_SHARE)


def _is_round(numbers_D: NDArray[np.int64], counts_D: NDArray[np.int64]) -> bool:
    """Returns whether some last digits are preferred: by all different numbers, or 0 and 5 by the most frequent."""
    number = len(numbers_D)
    digits = np.bincount(numbers_D % 10, minlength=10)
    if ((digits - number / 10) ** 2).sum() / (number / 10) > 40 and digits.max() > 0.2 * number:
        return True
    often = numbers_D[np.argsort(-counts_D, kind="stable")[: max(20, number // 5)]]
    share = (often % 5 == 0).mean()
    return bool(share > max(0.35, 0.2 + 4 * np.sqrt(0.16 / len(often))))


def _grows(numbers_D: NDArray[np.int64]) -> bool:
    """Returns whether equally many different numbers take ever wider ranges: of a count or a price, whatever else."""
    cut = len(numbers_D) // 50
    ends_G = numbers_D[np.linspace(cut, len(numbers_D) - 1 - cut, _GROUPS + 1).astype(np.int64)]
    widths_G = np.diff(ends_G)
    upper_G, least = widths_G[_GROUPS // 2 :], max(1, int(widths_G.min()))
    return bool((np.diff(upper_G) >= 0).all() and upper_G[-2] >= 2 * least and upper_G[-1] >= 4 * least)


def _of_label(place_R: NDArray[np.int64], labels_R: NDArray[np.float64]) -> str:
    """Returns how a label depends on a number: `rough`, as on a name, `smooth`, as on an amount, or empty: unknown."""
    known_R = np.isfinite(labels_R)
    place_R = np.unique(place_R[known_R], return_inverse=True)[1]
    # Ranks: a label of money has few rows that would count for all others.
    labels_R = np.unique(labels_R[known_R], return_inverse=True)[1].astype(np.float64)
    if len(labels_R) < _FEWEST_ROWS or labels_R.max() == 0:
        return ""
    weights = (np.ones_like(labels_R), labels_R, labels_R**2)
    sums = np.stack([np.bincount(place_R, each) for each in weights], 1).astype(np.float64)
    rough, between = _differ(sums)
    surely, of_all = _differ(sums[np.random.default_rng(0).permutation(len(sums))])
    if rough >= _SURE and between >= _ROUGH_SHARE * of_all:
        return "rough"
    return "smooth" if surely >= _SURE and between < _SMOOTH_SHARE * of_all else ""


def _differ(sums: NDArray[np.float64]) -> tuple[float, float]:
    """Returns by how many standard deviations pairs of values differ more than by chance, and the variance between.

    Args:
        sums: of each value its rows, and the sums of their labels and squares, [D, 3]: neighbors are a pair.
    """
    first, second = sums[0 : len(sums) // 2 * 2 : 2], sums[1 : len(sums) // 2 * 2 : 2]
    rows_P, sum_P, squares_P = (first + second).T
    # Of a pair that is drawn anew from its rows, the squared difference has exactly this mean.
    spread_P = (squares_P - sum_P**2 / rows_P) / np.maximum(1, rows_P - 1)
    noise_P = spread_P * (1 / first[:, 0] + 1 / second[:, 0])
    squared_P = (first[:, 1] / first[:, 0] - second[:, 1] / second[:, 0]) ** 2
    used_P = (rows_P >= 4) & (spread_P > 0)
    if used_P.sum() < _WINDOW:
        return 0.0, 0.0
    ratio_P = squared_P[used_P] / noise_P[used_P]
    deviations = (ratio_P.sum() - len(ratio_P)) / np.sqrt(2 * len(ratio_P))
    weights_P = 1 / (1 / first[used_P, 0] + 1 / second[used_P, 0])
    between = np.average((squared_P - noise_P)[used_P], weights=weights_P) / 2
    return float(deviations), float(between)


def _determined(
    column: str, columns: Mapping[str, Values], place_R: NDArray[np.int64], rows_R: NDArray[Any]
) -> Iterator[str]:
    """Yields the columns of categories of which each number has one, as no range of numbers does."""
    few = slice(None, None, max(1, len(rows_R) // _ROWS_OF_CATEGORIES))
    place_R, rows_R, number = place_R[few], rows_R[few], int(place_R.max()) + 1
    for name, values in columns.items():
        if name == column or values.is_list or values.kind != "string" or not 3 <= values.num_different <= number // 2:
            continue
        codes_R = values.codes[rows_R]
        pairs, counts = np.unique(
            place_R[codes_R >= 0] * np.int64(values.num_different) + codes_R[codes_R >= 0], return_counts=True
        )
        of_number, category = np.divmod(pairs, values.num_different)
        order = np.lexsort([-counts, of_number])
        first = order[np.unique(of_number[order], return_index=True)[1]]
        rows = np.bincount(of_number, counts, number)[of_number[first]]
        often = rows >= 2
        if often.sum() < _WINDOW or counts[first][often].sum() < _PURE * rows[often].sum():
            continue
        main = category[first]
        shares = np.bincount(main) / len(main)
        by_chance = 1 - (shares**2).sum()
        if by_chance > 0.1 and (np.diff(main) != 0).mean() > 0.5 * by_chance:
            yield name

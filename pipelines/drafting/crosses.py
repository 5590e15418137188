"""Pairs that have a row each, told by values: two ids, of which one has chosen the other before, and an id and its
price, at which it is bought otherwise. Neither column alone tells either."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from sangam.pipelines.drafting.guesses import Guess, Settings
from sangam.pipelines.drafting.names import name_of
from sangam.pipelines.drafting.passing import FEWEST_ROWS, Days, Pair, paired, seen_before
from sangam.pipelines.drafting.values import Values

_MOST_IDS = 5
"""Most columns of ids whose pairs are compared: those with the most different ids."""
_ROWS_OF_PAIR = 5.0
"""Fewest rows of an id and a number in the mean: pairs that hardly return would be learned by heart."""
_PRICES_OF_ID = 1.2
"""Fewest numbers of an id in the mean: with one each, the id already tells it."""
_SETTLED = 0.25
"""Least share of an id's rows that have the number of its row before, without chance: of item and price 0.84."""
_PRICE_TELLS = 0.15
"""Least correlation between what a pair has told and what it tells later: of item and price 0.23, of any other pair in
the five sets of docs/quality.md 0.10 at most."""
_RETURNING = 0.1
"""Least share of the newest day's rows whose pair of ids an earlier day has."""
_TOLD = 0.6
"""Least AUC for a label of whether an earlier day has the pair: on the feed of `sangam generate`, with 0.53 at most,
the single pass that rows of pairs ask for costs more than they gain (ADR 0092)."""
_DEVIATIONS = 3.0
"""Fewest standard deviations by which a statistic is above chance: a rare label has some AUC of 0.6."""
_STRATA = 8
TABLE_OF_PAIRS: Settings = {"dim": 4, "optimizer": {"kind": "rowwise_adagrad", "learning_rate": 0.3}}
"""Four of five pairs occur once: one step has to move their row far, and the row has to be small."""

# Shape suffixes: R rows of the sample; P rows with both columns of a pair.


def price_of_id(
    ids: Sequence[Guess],
    numbers: Sequence[Guess],
    labels: Iterable[str],
    columns: Mapping[str, Values],
    days: Days,
    taken: Sequence[str],
) -> Guess | None:
    """Returns the cross of an id and its price, without a table; None if no such pair tells a label on later rows.

    Args:
        ids: features of ids.
        numbers: features of numbers.
        labels: columns to predict.
        columns: columns of the sample.
        days: days of the logs.
        taken: names of other features.
    """
    targets = {name: columns[name] for name in labels}
    best, most = None, 0.0
    for one in _largest(ids, columns):
        agreement = _agreement(columns[one.column])
        for number in (each for each in numbers if each.kind == "numeric"):
            values = columns[number.column]
            if values.num_different < 3 or agreement(values) < _SETTLED:
                continue
            told, label, why = _told_by_price(columns[one.column], values, targets, days.of_rows)
            if told >= max(most, _PRICE_TELLS):
                name = name_of(f"{one.name}_and_{number.name}", taken)
                why = f"{why}, which tells {label} (correlation {told:.2f} with earlier rows)"
                best, most = Guess(one.column, "cross", why, name, _cross((one, number), name)), told
    return best


def _largest(ids: Iterable[Guess], columns: Mapping[str, Values]) -> list[Guess]:
    """Returns the features with the most different ids, in the order of the columns."""
    most = sorted(ids, key=lambda each: -columns[each.column].num_different)[:_MOST_IDS]
    return [each for each in ids if each in most]


def _agreement(ids: Values) -> Callable[[Values], float]:
    """Returns how often an id's row has the number of its row before, without how often any two rows agree."""
    order = np.argsort(ids.codes, kind="stable")
    order = order[ids.codes[order] >= 0]
    is_same_id = np.diff(ids.codes[order]) == 0

    def agreement(values: Values) -> float:
        if not is_same_id.any():
            return 0.0
        shares = np.bincount(values.codes[values.is_present]) / max(1, len(values.codes))
        return float((np.diff(values.codes[order]) == 0)[is_same_id].mean() - (shares**2).sum())

    return agreement


def _told_by_price(ids: Values, numbers: Values, labels: Mapping[str, Values], days: Any) -> tuple[float, str, str]:
    """Returns how well what the pairs of the earlier half of the rows have told of a label, beyond what the id and the
    number alone tell, tells the later half; with the label, and what is known of the pairs."""
    rows_P = np.flatnonzero(ids.is_present & numbers.is_present)
    if days is not None:
        rows_P = rows_P[np.argsort(days[rows_P], kind="stable")]
    pairs_P, of_id_P, of_number_P = _coded(ids, numbers)[rows_P], ids.codes[rows_P], numbers.codes[rows_P]
    pairs_P, number = _numbered(pairs_P)
    rows, per_id = len(rows_P) / max(1, number), number / max(1, ids.num_different)
    if rows < _ROWS_OF_PAIR or per_id < _PRICES_OF_ID:
        return 0.0, "", ""
    half = len(rows_P) // 2
    earlier, later = slice(half), slice(half, None)
    seen = np.bincount(pairs_P[earlier], minlength=number)
    best = (0.0, "")
    for name, label in labels.items():
        known = label.is_present[rows_P]
        if not known.all():
            continue
        parts = [_beyond(label.numbers[rows_P[part]], of_id_P[part], of_number_P[part]) for part in (earlier, later)]
        told = np.bincount(pairs_P[earlier], parts[0], number) / (seen + _ROWS_OF_PAIR)
        guess = _beyond(told[pairs_P[later]], of_id_P[later], of_number_P[later])
        of_both = float((guess**2).sum() * (parts[1] ** 2).sum())
        told_by = float((guess * parts[1]).sum()) / sqrt(of_both) if of_both > 0 else 0.0
        best = max(best, (told_by if told_by * sqrt(len(guess)) >= _DEVIATIONS else 0.0, name))
    return *best, f"{per_id:.1f} numbers of an id, each in {rows:.0f} rows in the mean"


def _beyond(numbers_P: Any, *codes_P: Any) -> Any:
    """Returns numbers without the means by each of two codes."""
    rest_P = numbers_P - numbers_P.mean()
    for _ in range(3):
        for each_P in codes_P:
            rows = np.bincount(each_P)
            rest_P = rest_P - (np.bincount(each_P, rest_P) / np.maximum(1, rows))[each_P]
    return rest_P


def pair_of_ids(
    ids: Sequence[Guess], labels: Iterable[str], columns: Mapping[str, Values], days: Days, taken: Sequence[str]
) -> list[Guess]:
    """Returns the cross of two ids, and where days have files of their own how often earlier ones have the pair; none
    unless pairs return, and whether one does tells a label.

    Args:
        ids: features of ids.
        labels: columns to predict.
        columns: columns of the sample.
        days: days of the logs.
        taken: names of other features.
    """
    targets = {name: columns[name] for name in labels if columns[name].is_binary}
    known = [each for each in ids if not each.is_mostly_new]
    if days.of_rows is None or not targets or len(known) < 2:
        return []
    evidence = _Evidence(columns, targets, days)
    guessed = []
    for one, other in combinations(_largest(known, columns), 2):
        first, second = columns[one.column], columns[other.column]
        told, share = evidence.of_sample(one.column, other.column)
        # A sample of few rows of many shows no pair, where the logs may have it: then that with the most ids.
        if told >= _TOLD or (share < _RETURNING and days.earlier):
            guessed.append((told, first.num_different * second.num_different, one, other))
    if not guessed:
        return []
    *_, one, other = max(guessed, key=lambda each: each[:2])
    told, label, share = evidence.of_logs((one.column, other.column))
    if told < _TOLD:
        return []
    why = f"{share:.1%} of the newest day's rows have a pair of an earlier day, which tells {label} (AUC {told:.2f})"
    return _pair(one, other, why, taken)[: 2 if days.are_files else 1]


class _Evidence:
    """What it tells of a label that earlier days have a pair of ids, both of which they have."""

    def __init__(self, columns: Mapping[str, Values], labels: Mapping[str, Values], days: Days) -> None:
        """Args:
        columns: columns of the sample.
        labels: binary labels.
        days: days of the logs, which are known.
        """
        self._columns, self._labels, self._days = columns, labels, days
        self._is_newest_R = days.of_rows == days.of_rows.max()

    def of_sample(self, *pair: str) -> tuple[float, float]:
        """Returns the AUC for the label it tells best, and the share of the newest day's rows that have an earlier
        pair, by the sample's rows alone."""
        first, second = (self._columns[name] for name in pair)
        both_R = first.is_present & second.is_present
        rows = np.flatnonzero(self._is_newest_R & both_R)
        if len(rows) < FEWEST_ROWS:
            return 0.0, 1.0
        pairs_R = _coded(first, second)
        is_seen = np.isin(pairs_R[rows], pairs_R[~self._is_newest_R & both_R])
        told, _ = self._best(pair, rows, is_seen, [self._before(name)[rows] > 0 for name in pair])
        return told, float(is_seen.mean())

    def of_logs(self, pair: Pair) -> tuple[float, str, float]:
        """Returns the AUC, the label, and the share of the newest day's rows that have an earlier pair, by all rows;
        zeros where the share is not enough."""
        wanted: dict[str | Pair, Values] = {name: self._columns[name] for name in pair}
        wanted[pair] = paired(*(self._columns[name] for name in pair))
        seen = seen_before(wanted, self._days)
        if set(seen) < set(wanted) or seen[pair][1].mean() < _RETURNING:
            return 0.0, "", 0.0
        rows, is_seen = seen[pair]
        known = [each[np.isin(of, rows)] for of, each in (seen[name] for name in pair)]
        return (*self._best(pair, rows, is_seen, known), float(is_seen.mean()))

    def _best(self, pair: Sequence[str], rows: Any, is_seen: Any, known: Sequence[Any]) -> tuple[float, str]:
        """Returns the AUC of whether a pair is seen, of rows whose ids are, for the label that it tells best."""
        is_known = np.logical_and(*known)
        rows, is_seen = rows[is_known], is_seen[is_known].astype(np.float64)
        if len(rows) < FEWEST_ROWS:
            return 0.0, ""
        # Pairs of frequent ids are seen more often, and frequent ids may have other labels.
        chance = np.log1p(self._before(pair[0])[rows]) + np.log1p(self._before(pair[1])[rows])
        strata = np.searchsorted(np.quantile(chance, np.linspace(0, 1, _STRATA + 1)[1:-1]), chance)
        return max((_told(values, rows, is_seen, strata), name) for name, values in self._labels.items())

    def _before(self, name: str) -> Any:
        """Returns for each row how many of the sample's rows of earlier days have its id."""
        codes_R = self._columns[name].codes
        rows = np.bincount(codes_R[~self._is_newest_R & (codes_R >= 0)], minlength=self._columns[name].num_different)
        return np.where(codes_R >= 0, np.append(rows, 0)[codes_R], 0)


def _told(label: Values, rows: Any, is_seen: Any, strata: Any) -> float:
    """Returns the AUC, in the better direction, of whether a pair is seen for a binary label within strata; 0 where
    chance explains it."""
    known = label.is_present[rows]
    seen, target = (_beyond(each[known], strata[known]) for each in (is_seen, label.numbers[rows]))
    of_seen, of_target, both = float((seen**2).sum()), float((target**2).sum()), abs(float((seen * target).sum()))
    if not of_target or not of_seen or both * sqrt(len(seen)) < _DEVIATIONS * sqrt(of_seen * of_target):
        return 0.0
    return 0.5 + min(1.0, both / of_target) / 2


def _pair(one: Guess, other: Guess, why: str, taken: Sequence[str]) -> list[Guess]:
    name = name_of(f"{one.name}_and_{other.name}", taken)
    cross = _cross((one, other), name)
    count: Settings = {"kind": "count", "by": cross["columns"], "log": True}
    before = "rows of the pair on earlier days of the run"
    return [
        Guess(other.column, "cross", why, name, cross),
        Guess(other.column, "count", before, name_of(f"{name}_before", taken), count),
    ]


def pairs_of_ids(features: Sequence[Guess]) -> list[Guess]:
    """Returns the features that are the cross of two ids."""
    ids = {each.column for each in features if each.kind == "id"}
    return [each for each in features if each.kind == "cross" and ids >= set(each.settings["columns"])]


def _cross(pair: Sequence[Guess], name: str) -> Settings:
    """Returns a cross of ids and numbers, with a table of its name; a missing value has a row where it had one."""
    types = {each.column: each.settings.get("type", "float") for each in pair}
    settings: Settings = {"kind": "cross", "columns": types, "table": name}
    if any("missing" in each.settings or each.settings.get("missing_row") for each in pair):
        settings["missing_row"] = True
    return settings


def pair_counts(pair: Sequence[str], columns: Mapping[str, Values]) -> dict[Any, int]:
    """Returns the number of rows of each pair of values of two columns."""
    first, second = (columns[column] for column in pair)
    codes = _coded(first, second)[first.is_present & second.is_present]
    return dict(zip(*(each.tolist() for each in np.unique(codes, return_counts=True)), strict=True))


def _coded(first: Values, second: Values) -> Any:
    """Returns a number for each row's pair, where it has one."""
    return first.codes * np.int64(second.num_different + 1) + second.codes


def _numbered(codes: Any) -> tuple[Any, int]:
    """Returns codes as numbers from 0, and how many there are."""
    encoded = pa.array(codes).dictionary_encode()
    return np.asarray(encoded.indices, np.int64), len(encoded.dictionary)

"""Pairs of an item and its price: at a price of its own an item is bought otherwise. Pairs of a user and an item: what
a user has chosen before. Neither column alone tells either."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from sangam.pipelines.drafting.guesses import Guess, Settings
from sangam.pipelines.drafting.names import ITEMS, PRICES, USERS, is_id_of, name_of, words_of
from sangam.pipelines.drafting.passing import Days, paired, seen_before
from sangam.pipelines.drafting.values import Values

_ROWS_OF_PAIR = 5.0
"""Fewest rows of a pair in the mean: pairs that hardly return would be learned by heart."""
_PRICES_OF_ITEM = 1.2
"""Fewest prices of an item in the mean: with one price each, the item already tells it."""
_RETURNING = 0.1
"""Least share of the newest day's rows whose pair of user and item an earlier day has."""
_TOLD = 0.6
"""Least AUC for a label of whether an earlier day has the pair: on the feed of `sangam generate`, with 0.53 at most,
the single pass that rows of pairs ask for costs more than they gain (ADR 0092)."""
_DEVIATIONS = 3.0
"""Fewest standard deviations by which this AUC is above chance: a rare label has some AUC of 0.6."""
TABLE_OF_USERS: Settings = {"dim": 4, "optimizer": {"kind": "rowwise_adagrad", "learning_rate": 0.3}}
"""Four of five pairs occur once: one step has to move their row far, and the row has to be small."""


def price_of_item(
    ids: Sequence[Guess], numbers: Sequence[Guess], columns: Mapping[str, Values], taken: Sequence[str]
) -> Guess | None:
    """Returns the cross of an item and its price, without a table; None if no such pair returns often.

    Args:
        ids: features of ids.
        numbers: features of numbers.
        columns: columns of the sample.
        taken: names of other features.
    """
    prices = [each for each in numbers if each.kind == "numeric" and PRICES & set(words_of(each.column))]
    for item in (each for each in ids if is_id_of(each.column, ITEMS)):
        for price in prices:
            counts = np.array(list(pair_counts((item.column, price.column), columns).values()))
            per_item = len(counts) / max(1, columns[item.column].num_different)
            if len(counts) and counts.mean() >= _ROWS_OF_PAIR and per_item >= _PRICES_OF_ITEM:
                why = f"{per_item:.1f} prices of an item, each in {counts.mean():.0f} rows in the mean"
                name = name_of(f"{item.name}_and_{price.name}", taken)
                return Guess(item.column, "cross", why, name, _cross((item, price), name))
    return None


def user_and_item(
    ids: Sequence[Guess], labels: Iterable[str], columns: Mapping[str, Values], days: Days, taken: Sequence[str]
) -> list[Guess]:
    """Returns the cross of a user and an item, and where days have files of their own how often earlier ones have the
    pair; none unless pairs return, and whether one does tells a label.

    Args:
        ids: features of ids.
        labels: columns to predict.
        columns: columns of the sample.
        days: days of the logs.
        taken: names of other features.
    """
    known = [each for each in ids if not each.is_mostly_new]
    users = [each for each in known if is_id_of(each.column, USERS)][:1]
    items = [each for each in known if is_id_of(each.column, ITEMS)]
    for user, item in product(users, sorted(items, key=lambda each: -columns[each.column].num_different)):
        pair = (user.column, item.column)
        found = seen_before({pair: paired(*(columns[column] for column in pair))}, days).get(pair)
        if found is None or found[1].mean() < _RETURNING:
            continue
        told, label = max(((_told(columns[name], *found), name) for name in labels), default=(0.0, ""))
        if told >= _TOLD:
            share = f"{found[1].mean():.1%} of the newest day's rows have a pair of an earlier day"
            why = f"{share}, which tells {label} (AUC {told:.2f})"
            return _pair(user, item, why, taken)[: 2 if days.are_files else 1]
    return []


def _told(label: Values, rows: Any, is_seen: Any) -> float:
    """Returns the AUC, in the better direction, of whether a pair is seen for a binary label; 0 of another label, and
    where chance explains it."""
    if not label.is_binary:
        return 0.0
    ones, zeros = (is_seen[label.numbers[rows] == value] for value in (1, 0))
    if not len(ones) or not len(zeros):
        return 0.0
    share, apart = is_seen.mean(), abs(float(ones.mean() - zeros.mean()))
    by_chance = sqrt(share * (1 - share) * (1 / len(ones) + 1 / len(zeros)))
    return 0.5 + apart / 2 if apart > _DEVIATIONS * by_chance else 0.0


def _pair(user: Guess, item: Guess, why: str, taken: Sequence[str]) -> list[Guess]:
    name = name_of(f"{user.name}_and_{item.name}", taken)
    cross = _cross((user, item), name)
    count: Settings = {"kind": "count", "by": cross["columns"], "log": True}
    return [
        Guess(item.column, "cross", why, name, cross),
        Guess(
            item.column, "count", "rows of the pair on earlier days of the run", name_of(f"{name}_before", taken), count
        ),
    ]


def is_of_users(feature: Guess) -> bool:
    """Returns whether a feature is the cross of a user and an item."""
    return feature.kind == "cross" and any(is_id_of(column, USERS) for column in feature.settings["columns"])


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
    rows = first.is_present & second.is_present
    codes = first.codes[rows] * np.int64(second.num_different + 1) + second.codes[rows]
    return dict(zip(*(each.tolist() for each in np.unique(codes, return_counts=True)), strict=True))

"""Pairs of an item and its price: at a price of its own an item is bought otherwise, which its two columns alone do not
tell."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sangam.pipelines.drafting.guesses import Guess, Settings
from sangam.pipelines.drafting.names import ITEMS, PRICES, is_id_of, name_of, words_of
from sangam.pipelines.drafting.values import Values

_ROWS_OF_PAIR = 5.0
"""Fewest rows of a pair in the mean: pairs that hardly return would be learned by heart."""
_PRICES_OF_ITEM = 1.2
"""Fewest prices of an item in the mean: with one price each, the item already tells it."""


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
                return Guess(item.column, "cross", why, name, _settings(item, price, name))
    return None


def _settings(item: Guess, price: Guess, name: str) -> Settings:
    types = {item.column: item.settings["type"], price.column: price.settings.get("type", "float")}
    settings: Settings = {"kind": "cross", "columns": types, "table": name}
    if "missing" in price.settings or item.settings.get("missing_row"):
        settings["missing_row"] = True
    return settings


def pair_counts(pair: Sequence[str], columns: Mapping[str, Values]) -> dict[Any, int]:
    """Returns the number of rows of each pair of values of two columns."""
    first, second = (columns[column] for column in pair)
    rows = first.is_present & second.is_present
    codes = first.codes[rows] * np.int64(second.num_different + 1) + second.codes[rows]
    return dict(zip(*(each.tolist() for each in np.unique(codes, return_counts=True)), strict=True))

"""Logs of positives alone, such as purchases or plays: rows of a user and an item, and none that says no."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sangam.pipelines.drafting.guesses import Guess, Settings
from sangam.pipelines.drafting.names import ITEMS, USERS, entity_of, name_of, words_of
from sangam.pipelines.drafting.values import Values

MOST_JUDGED, PER_POSITIVE = 100, 4
_OF_ITEM = 0.95
"""Least share of rows whose value is that of most rows of the item, in a column that describes items."""


@dataclass(frozen=True)
class Positives:
    """The columns by which rows that say no are sampled.

    Attributes:
        label: column that ingestion creates.
        list_column: column that ingestion creates, a number of each positive.
        settings: `data.negatives`.
        why: the reason.
    """

    label: str
    list_column: str
    settings: Settings
    why: str


def positives_of(columns: Mapping[str, Values], refused: Container[str]) -> Positives | None:
    """Returns how rows that say no are sampled; None if no columns are a user and an item."""
    ids = [name for name, values in columns.items() if name not in refused and values.kind in ("int", "string")]
    ids = [name for name in ids if not columns[name].is_list and not columns[name].form]
    user, item = (_named(ids, entities) for entities in (USERS, ITEMS))
    if not user or not item or columns[item].num_different < 2:
        return None
    others = [name for name in columns if name not in (user, item) and name not in refused]
    of_item = [name for name in others if _is_of(columns[name], columns[item])]
    judged = min(MOST_JUDGED, max(PER_POSITIVE, columns[item].num_different // 2))
    label, list_column = name_of("chosen", columns), name_of("choice", columns)
    settings: Settings = {
        "label": label,
        "user": user,
        "item": item,
        "item_columns": of_item,
        "per_positive": PER_POSITIVE,
        "judged_per_positive": judged,
        "list_column": list_column,
    }
    why = (
        f"no column says no: rows of a {user} and another {item} are sampled; check item_columns: all that describe it"
    )
    return Positives(label, list_column, settings, why)


def label_of(positives: Positives) -> Guess:
    """Returns the label that ingestion creates."""
    return Guess(positives.label, "label", "created by data.negatives", positives.label, {"kind": "binary"})


def _named(ids: Sequence[str], entities: Container[str]) -> str:
    """Returns the first id of an entity."""
    return next((name for name in ids if _entity(name) in entities), "")


def _entity(name: str) -> str:
    words = words_of(name)
    joined = "".join(words)
    # `userid` is one word.
    return entity_of(name) or (joined[:-2] if joined.endswith("id") and len(joined) > 2 else joined)


def _is_of(values: Values, items: Values) -> bool:
    """Returns whether nearly all rows of an item have one value."""
    if values.is_list or values.kind == "null" or values.form.get("kind") == "time":
        return False
    both = values.is_present & items.is_present
    codes, of_items = (_codes(each)[both] for each in (values, items))
    if not len(codes) or len(np.unique(of_items)) == len(of_items):
        return False
    pairs, number = np.unique(np.stack([of_items, codes]), axis=1, return_counts=True)
    largest = np.zeros(int(pairs[0].max()) + 1, np.int64)
    np.maximum.at(largest, pairs[0], number)
    return bool(largest.sum() >= _OF_ITEM * len(codes)) and len(np.unique(codes)) > 1


def _codes(values: Values) -> Any:
    return np.asarray(values.values.dictionary_encode().indices.fill_null(0), np.int64)

"""Roles of columns of lists: ids, a sequence, a vector, the weights of ids, or none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from math import sqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sangam.pipelines.drafting.guesses import ColumnFacts, Guess, Settings
from sangam.pipelines.drafting.names import HISTORIES, entity_of, plural_of, words_of
from sangam.pipelines.drafting.values import Values

MOST_OF_SEQUENCE = 50
"""Most events of a drafted sequence."""
_MOST_VALUES, _MOST_OF_VECTOR = 64, 4096
_SEPARATORS = "|;,"
_SHARE_SEPARATED = 0.2
_SAME_NAME, _OTHER_NAME = 0.05, 0.5
"""Smallest shares of a list column's distinct values that are ids of a column: with similar names, and otherwise."""
_BEYOND_CHANCE = 2.0
"""Least ratio of such a share of integers to that of all integers of their range."""
_AS_FREQUENT, _DEVIATIONS = 0.2, 5.0
"""Least correlation of the frequencies of integers in the lists and in a column, beside those of their neighbors, and
fewest standard deviations from 0."""
_FEWEST_ROWS_OF_MATCH = 1000
"""Fewest rows that show that an id is never in its list, as of users who take nothing twice."""


def split_lists(columns: Mapping[str, Values]) -> tuple[str | None, dict[str, Values]]:
    """Splits CSV cells that hold lists.

    Returns:
        The separator (None if no column has one) and the columns.
    """
    found: dict[str, list[str]] = {separator: [] for separator in _SEPARATORS}
    for name, values in columns.items():
        if values.kind != "string" or values.is_list or not values.counts:
            continue
        cells = values.values.filter(values.values.is_valid())
        for separator in _SEPARATORS:
            with_it = pc.sum(pc.match_substring(cells, separator)).as_py() / len(cells)
            # Commas and semicolons also stand in prose, followed by a space.
            in_prose = separator != "|" and pc.any(pc.match_substring(cells, f"{separator} ")).as_py()
            if with_it >= _SHARE_SEPARATED and not in_prose:
                found[separator].append(name)
    separator = max(_SEPARATORS, key=lambda each: len(found[each]))
    if not found[separator]:
        return None, dict(columns)
    return separator, {
        name: _split(values, separator) if name in found[separator] else values for name, values in columns.items()
    }


def guess_list(
    column: str, values: Values, facts: ColumnFacts, others: Mapping[str, Values], ids: Sequence[Guess]
) -> Guess:
    """Returns the role of a column of lists.

    Args:
        column: name of the column.
        values: values of the column.
        facts: facts on the logs.
        others: all columns of the sample.
        ids: features of kind id, with their tables; a list may hold the same ids.
    """
    longest = int(values.lengths.max(initial=0))
    if values.kind == "float":
        return _floats(column, values, others)
    if longest == 0:
        return Guess(column, "left out", "no row that was read has a value")
    kind = "int" if values.kind == "int" and not facts.is_csv else "string"
    shared = _shared(column, values, others, [guess for guess in ids if guess.settings["type"] == kind])
    lengths = f"lists of up to {longest} {'integers' if values.kind == 'int' else 'texts'}"
    if shared or HISTORIES & set(words_of(column)):
        settings: Settings = {"kind": "sequence", "type": kind, "max_length": min(longest, MOST_OF_SEQUENCE)}
        why = (
            f"{lengths}{f', ids of {shared.column}' if shared else ', named as a history'}; check: the newest is first"
        )
    else:
        settings = {"kind": "ids", "type": kind, "combiner": "mean", "max_values": min(max(2, longest), _MOST_VALUES)}
        why = f"{lengths}, {values.num_different:,} different"
    if shared:
        settings["table"] = shared.settings["table"]
    return Guess(column, str(settings["kind"]), why, "", settings)


def match_of(
    sequence: Guess, ids: Sequence[Guess], taken: Sequence[str], columns: Mapping[str, Values]
) -> Guess | None:
    """Returns the feature for whether a row's id is in its sequence, left out if no row's is; None if no id shares the
    sequence's table."""
    one = next((guess for guess in ids if guess.settings["table"] == sequence.settings["table"]), None)
    name = f"{one.name}_in_{sequence.name}" if one else ""
    if one is None or name in taken:
        return None
    settings = {"kind": "match", "column": one.column, "among": sequence.column, "type": one.settings["type"]}
    matched, rows = _matched(columns[one.column], columns[sequence.column])
    if matched == 0 and rows >= _FEWEST_ROWS_OF_MATCH:
        why = f"{one.column} is in {sequence.column} in none of {rows:,} rows that have both"
        return Guess(sequence.column, "left out", why, name, settings)
    return Guess(sequence.column, "match", f"whether {one.column} is in {sequence.column}", name, settings)


def _matched(single: Values, lists: Values) -> tuple[int, int]:
    """Returns in how many rows a value is in the row's list, and how many rows have both."""
    row = np.repeat(np.arange(len(lists.lengths)), lists.lengths)
    # As texts: one of the columns may hold integers.
    equal = pc.equal(lists.values.cast(pa.large_string()), single.values.cast(pa.large_string()).take(pa.array(row)))
    matching = row[np.asarray(pc.fill_null(equal, False), bool)]
    return len(np.unique(matching)), int((single.is_present & lists.is_present).sum())


def weights_for(column: str, columns: Mapping[str, Values]) -> str:
    """Returns the column of ids whose lists are as long as a column's floats in every row, or an empty text."""
    values = columns[column]
    if values.kind != "float" or len(set(values.lengths[values.lengths > 0])) < 2:
        return ""
    same = [
        name
        for name, other in columns.items()
        if other.is_list and other.kind != "float" and np.array_equal(other.lengths, values.lengths)
    ]
    # Of several columns, the one with the most similar name.
    return max(same, key=lambda name: SequenceMatcher(None, name, column).ratio(), default="")


def _floats(column: str, values: Values, others: Mapping[str, Values]) -> Guess:
    lengths = set(values.lengths[values.lengths > 0].tolist())
    if len(lengths) == 1 and (length := lengths.pop()) <= _MOST_OF_VECTOR:
        empty = bool((values.lengths == 0).any())
        settings: Settings = {"kind": "vector", "dim": length, "missing": 0.0}
        return Guess(column, "vector", f"{length} floats in every row{' that has some' if empty else ''}", "", settings)
    if ids := weights_for(column, others):
        return Guess(column, "weights", f"as many floats as {ids} has ids, in every row")
    return Guess(column, "left out", "lists of floats of several lengths: neither a vector nor weights of ids")


def _shared(column: str, values: Values, others: Mapping[str, Values], ids: Sequence[Guess]) -> Guess | None:
    """Returns the id feature with the list's ids."""
    own = {str(value) for value in values.counts}
    best, most = None, 0.0
    for guess in ids:
        share = len(own & {str(value) for value in others[guess.column].counts}) / max(1, len(own))
        entity = entity_of(guess.column) or guess.column
        is_named = bool({entity, plural_of(entity)} & {*words_of(column), "_".join(words_of(column))})
        if share <= most or share < (_SAME_NAME if is_named else _OTHER_NAME):
            continue
        if is_named or values.kind == "string" or _are_same(values, others[guess.column], share):
            best, most = guess, share
    return best


def _are_same(lists: Values, single: Values, share: float) -> bool:
    """Returns whether integers of lists are ids of a column: such a share of them is no chance, as it is of two columns
    that count from 1, or what occurs often in one does in the other."""
    if single.kind != "int" or not share:
        return False
    numbers = np.unique(single.present_numbers)
    low, high = lists.present_numbers.min(), lists.present_numbers.max()
    if share >= _BEYOND_CHANCE * ((numbers >= low) & (numbers <= high)).sum() / (high - low + 1):
        return True
    both = sorted(set(lists.counts) & set(single.counts))
    # Neighbors are compared, since numbers may be given in the order of frequency.
    first, second = (np.diff(np.log([values.counts[each] for each in both]))[::2] for values in (lists, single))
    if len(first) < 2 or not first.std() or not second.std():
        return False
    correlation = float(np.corrcoef(first, second)[0, 1])
    return correlation >= max(_AS_FREQUENT, _DEVIATIONS / sqrt(len(first)))


def _split(values: Values, separator: str) -> Values:
    cells = pc.split_pattern(pc.fill_null(values.values, ""), separator)
    lengths = np.asarray(pc.list_value_length(cells)).astype(np.int64)
    flat = cells.flatten()
    filled = np.asarray(pc.not_equal(flat, ""), bool)
    rows = np.repeat(np.arange(len(lengths)), lengths)[filled]
    kept = flat.filter(pa.array(filled, pa.bool_()))
    made = Values("string", kept.cast(pa.large_string()), np.bincount(rows, minlength=len(lengths)))
    try:
        floats = kept.cast(pa.float64())
    except pa.ArrowInvalid:
        return made
    # Digits could be ids or numbers: ids, unless one has a decimal point.
    return replace(made, kind="float", values=floats) if pc.any(pc.match_substring(kept, ".")).as_py() else made

"""The crosses that `tune: auto` tries: of ids with each other, and of ids with one number."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from sangam.schemas.derived.columns import is_bias
from sangam.schemas.spec import Spec
from sangam.schemas.spec.features import IdFeature, NumericFeature

PAIRS, FAST_PAIRS = "all pairs", "fast pairs"
"""Labels of the crosses of all pairs of ids; the rows of fast pairs learn from a single occurrence."""
_MOST_CROSSED = 4
"""Crosses are tried of the pairs of at most this many ids: their number grows with the square."""
_FAST = {"kind": "adam", "learning_rate": 0.1}
"""Adam moves a row by about its rate from the first step on (docs/quality.md, Online Retail)."""


class _Column(NamedTuple):
    """A column of the logs, with the name of a feature that reads it."""

    name: str
    column: str
    type: str


def sets_of(spec: Spec) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns sets of changes by label, by the name of the range.

    Crosses of all ids with one number: its exact value may say more about an id than its size, such as the price
    of an item with a bulk price.
    """
    ids = _columns(spec, IdFeature)
    if not 1 <= len(ids) <= _MOST_CROSSED:
        return {}
    pairs = {
        PAIRS: _crossed(spec, combinations(ids.values(), 2)),
        FAST_PAIRS: _crossed(spec, combinations(ids.values(), 2), optimizer=_FAST),
    }
    with_numbers = {
        number.name: _crossed(spec, [(each, number) for each in ids.values()])
        for column, number in _columns(spec, NumericFeature).items()
        if column not in ids
    }
    found = {"crosses": pairs, "number_crosses": with_numbers}
    return {key: sets for key, sets in found.items() if any(sets.values())}


def _columns(spec: Spec, kind: type[IdFeature] | type[NumericFeature]) -> dict[str, _Column]:
    """Returns the columns of features of a kind, each once."""
    found = [
        _Column(name, each.column or name, each.type)
        for name, each in spec.features.items()
        if isinstance(each, kind) and not is_bias(each)
    ]
    return {each.column: each for each in found}


def _crossed(
    spec: Spec, pairs: Iterable[tuple[_Column, _Column]], optimizer: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the change that crosses pairs, except those whose name the spec has already."""
    table: dict[str, Any] = {"dim": min(table.dim for table in spec.tables.values())}
    if optimizer is not None:
        table["optimizer"] = dict(optimizer)
    changes: dict[str, Any] = {}
    for first, second in pairs:
        name = f"{first.name}_{second.name}"
        if name not in spec.features and name not in spec.tables:
            columns = {first.column: first.type, second.column: second.type}
            changes[f"tables.{name}"] = table
            changes[f"features.{name}"] = {"kind": "cross", "columns": columns, "table": name, "missing_row": True}
    return changes

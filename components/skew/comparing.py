"""Compares served rows with those that the logs give, column by column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sangam.components.logs.joining.keys import NO_KEY, Integers, codes
from sangam.components.logs.readers.column_types import is_list
from sangam.components.reports.skew import ColumnSkew, Example, FeatureSkew, Value
from sangam.components.skew.causes import likely_cause
from sangam.components.skew.pairs import Pairs
from sangam.components.skew.values import Mask, differing, missing
from sangam.components.skew.versions import Versions, is_stale
from sangam.schemas.errors import UserError

_MOST_PAIRS = 10_000
"""Pairs in which a cause is sought, evenly from all that differ."""
_EXAMPLES = 3


@dataclass(frozen=True)
class Offline:
    """Rows that the logs give.

    Attributes:
        rows: keys and columns, as int64, float64, binary or lists of them.
        versions: other versions of columns that come from a table, by column, in the order of the rows.
    """

    rows: pa.Table
    versions: Mapping[str, Versions] = field(default_factory=dict)


def compare(
    served: pa.Table, offline: Offline, keys: Sequence[str], defaults: Mapping[str, Any] | None = None
) -> FeatureSkew:
    """Compares the columns that both have.

    Args:
        served: rows that the model saw, in the types of `Offline.rows`.
        offline: rows by the logs; several of one key are refused.
        keys: columns that name a row, that of its request first.
        defaults: values that stand for a missing one, by column.

    Raises:
        UserError: the logs have two rows of one key.
    """
    mine, theirs = _matched(served, offline.rows, keys)
    both = [name for name in served.column_names if name in offline.rows.column_names and name not in keys]
    seen, known = (
        {name: table[name].combine_chunks().take(pa.array(at)) for name in (*keys, *both)}
        for table, at in ((served, mine), (offline.rows, theirs))
    )
    columns = [
        _column(name, seen, known, _versions(offline, name, theirs), keys, (defaults or {}).get(name)) for name in both
    ]
    columns.sort(key=lambda column: (-column.share, column.column))
    return FeatureSkew(rows=served.num_rows, unmatched=served.num_rows - len(mine), columns=columns)


def _matched(served: pa.Table, offline: pa.Table, keys: Sequence[str]) -> tuple[Integers, Integers]:
    """Returns the rows of both sides with the same keys."""
    mine, theirs = codes(*([table[name].combine_chunks() for name in keys] for table in (served, offline)))
    order = np.argsort(theirs, kind="stable")
    in_order = theirs[order]
    twice = np.flatnonzero((np.diff(in_order) == 0) & (in_order[1:] != NO_KEY))
    if len(twice):
        row = order[twice[0]]
        got = ", ".join(f"{name} {plain(offline[name][row].as_py())!r}" for name in keys)
        raise UserError(f"logs: two rows have one key (got {got}); name keys that each row has for itself")
    if not len(order):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    at = np.minimum(np.searchsorted(in_order, mine), len(order) - 1)
    is_found = (in_order[at] == mine) & (mine != NO_KEY)
    return np.flatnonzero(is_found), order[at[is_found]]


def _versions(offline: Offline, column: str, rows: Integers) -> Versions | None:
    versions = offline.versions.get(column)
    return versions.take(rows) if versions else None


def _column(
    name: str,
    seen: Mapping[str, pa.Array],
    known: Mapping[str, pa.Array],
    versions: Versions | None,
    keys: Sequence[str],
    default: Any,
) -> ColumnSkew:
    served, offline = seen[name], known[name]
    is_wrong = differing(served, offline)
    wrong = np.flatnonzero(is_wrong)
    if not len(wrong):
        return ColumnSkew(column=name, compared=len(served), different=0)
    chosen = wrong[np.linspace(0, len(wrong) - 1, min(len(wrong), _MOST_PAIRS)).astype(np.int64)]
    at = pa.array(chosen)
    alike = [other for other in known if other not in (*keys, name) and known[other].type == offline.type]
    pairs = Pairs(
        served.take(at),
        offline.take(at),
        others={other: known[other].take(at) for other in alike},
        versions=versions.take(chosen) if versions else None,
        is_behind=bool(versions and _is_behind(versions, served, is_wrong)),
        is_permuted=_permuted(seen[keys[0]], served, offline)[chosen],
        default=default,
    )
    examples = [
        Example(
            keys={key: plain(seen[key][row].as_py()) for key in keys},
            served=plain(served[row].as_py()),
            offline=plain(offline[row].as_py()),
        )
        for row in wrong[:_EXAMPLES].tolist()
    ]
    return ColumnSkew(
        column=name, compared=len(served), different=len(wrong), cause=likely_cause(pairs), examples=examples
    )


def _is_behind(versions: Versions, served: pa.Array, is_wrong: Mask) -> bool:
    """Returns whether the values that are wrong are old since the newest versions are not there."""
    back = versions.back(served)
    old = np.flatnonzero(is_wrong & (back > 0))
    if not len(old):
        return False
    changed = differing(served, versions.earlier[0]) & ~missing(versions.earlier[0])
    return is_stale(versions.take(old), versions.take(np.flatnonzero(~is_wrong & changed)), back[old])


def _permuted(requests: pa.Array, served: pa.Array, offline: pa.Array) -> Mask:
    """Returns the rows of requests whose values are those of the logs in another order."""
    if is_list(served.type):
        return np.zeros(len(served), bool)
    [request] = codes([requests])
    values = [_as_read(array) for array in (served, offline)]
    value_codes = codes(*([array] for array in values), nulls_are_equal=True)
    mine, theirs = (code[np.lexsort((code, request))] for code in value_codes)
    in_order = np.sort(request)
    is_moved = np.bincount(in_order, weights=mine != theirs) == 0
    return np.asarray(is_moved[request], dtype=bool)


def _as_read(values: pa.Array) -> pa.Array:
    return values.cast(pa.float32(), safe=False) if pa.types.is_floating(values.type) else values


def plain(value: Any) -> Value:
    """Returns a value for a report: bytes as text, and no number that is not finite."""
    if isinstance(value, list):
        return [plain(each) for each in value]  # type: ignore[misc]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not np.isfinite(value):
        return None
    number_or_text: Value = value
    return number_or_text

"""Finds what is likely to have caused the differences of a column, by tests on the pairs of values that differ."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from sangam.components.logs.readers.column_types import is_list
from sangam.components.logs.readers.lists import lengths_of
from sangam.components.reports.skew import Cause
from sangam.components.skew.list_causes import OF_LISTS
from sangam.components.skew.number_causes import OF_NUMBERS
from sangam.components.skew.pairs import Found, Pairs
from sangam.components.skew.text_causes import OF_TEXTS
from sangam.components.skew.values import Mask, differing, missing

_ENOUGH, _LEAST = 0.9, 0.5
"""The first cause that explains so many of the differences is named; otherwise the one that explains most, if it is so
many."""
_DISTINCT = 3
"""Fewest distinct values that show more than a coincidence."""


def likely_cause(pairs: Pairs) -> Cause:
    """Returns the likely cause of the differences of at least one pair."""
    if is_list(pairs.served.type):
        found = _best(pairs, (*_OF_ALL, *OF_LISTS)) or _of_elements(pairs)
    else:
        found = _best(pairs, (*_OF_ALL, *(OF_TEXTS if pa.types.is_binary(pairs.served.type) else OF_NUMBERS)))
    return found or Cause(kind="other", detail="", share=0.0)


def _best(pairs: Pairs, tests: Sequence[Callable[[Pairs], Found | None]]) -> Cause | None:
    best: Cause | None = None
    for test in tests:
        found = test(pairs)
        share = float(found.explains.mean()) if found else 0.0
        if found and share >= _LEAST and (best is None or share > best.share):
            best = Cause(kind=found.kind, detail=found.detail, share=share)
        if best and best.share >= _ENOUGH:
            break
    return best


def _of_elements(pairs: Pairs) -> Cause | None:
    """Returns what explains the elements that differ, where most lists are as long as those of the logs."""
    at = np.flatnonzero(lengths_of(pairs.served) == lengths_of(pairs.offline))
    share = len(at) / len(pairs.served)
    if share < _ENOUGH:
        return None
    served, offline = (values.take(pa.array(at)).flatten() for values in (pairs.served, pairs.offline))
    wrong = pa.array(np.flatnonzero(differing(served, offline)))
    found = likely_cause(Pairs(served.take(wrong), offline.take(wrong)))
    return None if found.kind == "other" else found.model_copy(update={"share": found.share * share})


def _default_for_value(pairs: Pairs) -> Found | None:
    has_value = ~missing(pairs.offline)
    is_missing = missing(pairs.served) & has_value
    if is_missing.mean() >= _LEAST:
        return Found("default in place of a value", is_missing, "no value")
    if is_list(pairs.served.type):
        return None
    value = _commonest(pairs.served) if pairs.default is None else pa.scalar(pairs.default, pairs.served.type)
    is_value = has_value & ~differing(pairs.served, pa.repeat(value, len(pairs.served)))
    if pairs.default is None and _num_distinct(pairs.offline, is_value) < _DISTINCT:
        return None
    return Found("default in place of a value", is_value, f"always {_text(value)}")


def _value_for_default(pairs: Pairs) -> Found:
    is_default = missing(pairs.offline)
    if pairs.default is not None and not is_list(pairs.offline.type):
        default = pa.repeat(pa.scalar(pairs.default, pairs.offline.type), len(pairs.offline))
        is_default |= ~differing(pairs.offline, default)
    return Found("value in place of a default", is_default & ~missing(pairs.served), "the logs have no value")


def _swapped(pairs: Pairs) -> Found | None:
    best: Found | None = None
    for name, values in pairs.others.items():
        is_other = ~differing(pairs.served, values) & ~missing(pairs.served)
        if _num_distinct(pairs.served, is_other) > 1 and (best is None or is_other.sum() > best.explains.sum()):
            best = Found("swapped column", is_other, f"values of '{name}'")
    return best


def _permuted(pairs: Pairs) -> Found | None:
    if pairs.is_permuted is None:
        return None
    return Found("candidates in another order", pairs.is_permuted, "values of other candidates of the request")


def _older_version(pairs: Pairs) -> Found | None:
    versions = pairs.versions
    if versions is None:
        return None
    back = versions.back(pairs.served)
    wrong = back > 0
    if not wrong.any():
        return None
    age_s = versions.at_s - versions.since_s
    if pairs.is_behind:
        return Found("stale table", wrong, f"versions that came up to {age_s[wrong].max():.0f} s before are not there")
    return Found("older version of a join", wrong, f"{back[wrong].max()} before the one as of the request")


def _later_version(pairs: Pairs) -> Found | None:
    if pairs.versions is None:
        return None
    return Found("newer version of a join", pairs.versions.is_later(pairs.served), "the one after the request")


def _commonest(values: pa.Array) -> pa.Scalar:
    counted = values.drop_null().value_counts()
    if not len(counted):
        return pa.scalar(None, values.type)
    return counted.field("values")[int(np.asarray(counted.field("counts")).argmax())]


def _num_distinct(values: pa.Array, at: Mask) -> int:
    chosen = values.filter(pa.array(at))
    return len({tuple(each) for each in chosen.to_pylist()} if is_list(chosen.type) else chosen.unique())


def _text(value: pa.Scalar) -> str:
    plain = value.as_py()
    return repr(plain.decode(errors="backslashreplace")) if isinstance(plain, bytes) else str(plain)


_OF_ALL = (_default_for_value, _value_for_default, _swapped, _permuted, _older_version, _later_version)

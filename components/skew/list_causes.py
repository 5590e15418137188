"""Causes of differences between lists."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sangam.components.reports.skew import Kind
from sangam.components.skew.pairs import Found, Pairs

_Values = Sequence[Any]


def _reversed(served: _Values, offline: _Values) -> str:
    return "the last one first" if served == offline[::-1] else ""


def _cut(served: _Values, offline: _Values) -> str:
    if not 0 < len(served) < len(offline):
        return ""
    if served == offline[: len(served)]:
        return "without its end"
    if served == offline[-len(served) :]:
        return "without its start"
    return "reversed, and cut" if served in (offline[::-1][: len(served)], offline[::-1][-len(served) :]) else ""


def _order(served: _Values, offline: _Values) -> str:
    return "the same values" if sorted(served) == sorted(offline) else ""


def _by_list(kind: Kind, how: Callable[[_Values, _Values], str]) -> Callable[[Pairs], Found | None]:
    def test(pairs: Pairs) -> Found:
        lists = [[_plain(each) for each in values.to_pylist()] for values in (pairs.served, pairs.offline)]
        found = [how(served, offline) for served, offline in zip(*lists, strict=True)]
        explains = np.array([bool(text) for text in found])
        texts = sorted(set(filter(None, found)), key=lambda text: -found.count(text))
        longest = max((len(served) for served, text in zip(lists[0], found, strict=True) if text), default=0)
        detail = f"{texts[0]}, {longest} values at most" if texts and kind == "cut list" else "".join(texts[:1])
        return Found(kind, explains, detail)

    return test


def _plain(values: _Values | None) -> _Values:
    """Returns values that can be compared as the model reads them."""
    return [float(np.float32(value)) if isinstance(value, float) else value for value in values or []]


OF_LISTS = (
    _by_list("reversed list", _reversed),
    _by_list("cut list", _cut),
    _by_list("order of list", _order),
)

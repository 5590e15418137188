"""Causes of differences between texts and ids."""

import html
import unicodedata
import urllib.parse
from collections.abc import Callable

import numpy as np

from sangam.components.reports.skew import Kind
from sangam.components.skew.pairs import Found, Pairs


def _white_space(served: str, offline: str) -> bool:
    return served.split() == offline.split()


def _case(served: str, offline: str) -> bool:
    return served.strip().casefold() == offline.strip().casefold()


def _encoding(served: str, offline: str) -> bool:
    return served in _encodings(offline) or offline in _encodings(served)


def _encodings(text: str) -> set[str]:
    """Returns how a text looks after one wrong or needless step of encoding."""
    return {
        text.encode().decode("latin-1"),
        text.encode().decode("cp1252", errors="replace"),
        text.encode("ascii", errors="replace").decode(),
        text.encode("ascii", errors="ignore").decode(),
        text.encode("latin-1", errors="replace").decode(errors="backslashreplace"),
        unicodedata.normalize("NFD", text),
        unicodedata.normalize("NFKC", text),
        urllib.parse.quote(text),
        urllib.parse.quote_plus(text),
        html.escape(text),
        f'"{text}"',
        f"b'{text}'",
    }


def _form_of_numbers(served: str, offline: str) -> bool:
    try:
        return float(served) == float(offline)
    except ValueError:
        return False


def _cut(served: str, offline: str) -> bool:
    return offline.startswith(served) or offline.endswith(served)


def _by_text(kind: Kind, is_so: Callable[[str, str], bool]) -> Callable[[Pairs], Found | None]:
    def test(pairs: Pairs) -> Found:
        texts = [
            tuple(each.decode(errors="backslashreplace") if each else None for each in both)
            for both in zip(pairs.served.to_pylist(), pairs.offline.to_pylist(), strict=True)
        ]
        explains = np.array([bool(served and offline and is_so(served, offline)) for served, offline in texts])
        at = int(explains.argmax())
        return Found(kind, explains, f"as {texts[at][0]!r} for {texts[at][1]!r}")

    return test


OF_TEXTS = (
    _by_text("white space", _white_space),
    _by_text("case", _case),
    _by_text("encoding", _encoding),
    _by_text("form of numbers", _form_of_numbers),
    _by_text("cut text", _cut),
)

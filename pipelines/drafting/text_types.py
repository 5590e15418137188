"""Types of columns that hold texts: numbers, times, booleans, or texts after all."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from sangam.components.logs.readers.forms import numbers_of
from sangam.pipelines.drafting.names import TIMES, words_of
from sangam.pipelines.drafting.values import Values
from sangam.schemas.errors import UserError
from sangam.schemas.spec.forms import Form

NO_VALUE = ("NA", "N/A", "na", "n/a", "null", "NULL", "None", "none", "nan", "NaN", "\\N", "-", "?")
"""Texts that other programs write for no value."""
_ALWAYS = frozenset({"\\N", "NULL"})
"""Those that are no texts of their own in any column."""
_PAIRS = ({"yes": 1, "no": 0}, {"true": 1, "false": 0}, {"y": 1, "n": 0}, {"t": 1, "f": 0})
_MOST_SPELLINGS = 64
"""More than the spellings of a pair, such as True and TRUE."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.]\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_LIKE_DATE = re.compile(r"(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{8})([T ].*)?")
_FORMATS = tuple(
    f"{date}{time}"
    for date in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m/%d/%y", "%d/%m/%y", "%Y%m%d")
    for time in ("", " %H:%M", " %H:%M:%S")
)
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+|[+-]?\d+|[+-]?\d{1,3}(\.\d{3})+")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_S, _LAST_S = 631_152_000, 4_102_444_800
"""Range of plausible times: 1990 to 2100."""
_FORM_TYPE: Any = Form
_FORM: TypeAdapter[Any] = TypeAdapter(_FORM_TYPE)


def typed(name: str, values: Values, *, is_csv: bool) -> Values:
    """Returns a column with the type of its values, and the form in which the files have it.

    Args:
        name: name of the column.
        values: values as read; of CSV all are texts.
        is_csv: whether numbers are texts because of the format.
    """
    if values.is_list or values.kind == "null" or values.form:
        return values
    if values.kind != "string":
        return _with_unit(name, values)
    texts = values.values
    words = _words(values.different) if is_csv else frozenset()
    known = _without(texts, words) if words else texts
    if not known.null_count < len(known):
        return replace(values, values=known, absent=words)
    different = pc.unique(known).drop_null()
    for read in (_number, _flags, _time, _comma) if is_csv else (_flags, _time):
        if (found := read(known, different)) is not None:
            return _with_unit(name, replace(found, absent=words))
    only = words & _ALWAYS
    return replace(values, values=_without(texts, only) if only else texts, absent=only)


def _words(different: pa.Array) -> frozenset[str]:
    """Returns those of some texts that stand for no value."""
    return frozenset(different.filter(pc.is_in(different, pa.array(NO_VALUE, different.type))).to_pylist())


def _without(texts: pa.Array, words: frozenset[str]) -> pa.Array:
    is_none = pc.is_in(texts, pa.array(sorted(words), texts.type))
    return pc.if_else(is_none, pa.scalar(None, texts.type), texts)


def _number(texts: pa.Array, different: pa.Array) -> Values | None:
    del different
    for kind, target in (("int", pa.int64()), ("float", pa.float64())):
        try:
            return Values(kind, texts.cast(target))  # type: ignore[arg-type]
        except pa.ArrowInvalid:
            continue
    return None


def _flags(texts: pa.Array, different: pa.Array) -> Values | None:
    spelled = pc.unique(pc.utf8_lower(different)).to_pylist() if len(different) <= _MOST_SPELLINGS else []
    for pair in _PAIRS:
        if spelled and set(spelled) <= set(pair):
            known = different.to_pylist()
            # Also a text of the pair that the sample does not have.
            codes = {_like(known[0], text): value for text, value in pair.items()}
            codes |= {text: pair[text.lower()] for text in known}
            return _formed(texts, {"kind": "codes", "values": codes})
    return None


def _like(example: str, text: str) -> str:
    return text.upper() if example.isupper() and len(example) > 1 else text.title() if example[:1].isupper() else text


def _time(texts: pa.Array, different: pa.Array) -> Values | None:
    if not all(map(_LIKE_DATE.fullmatch, different[:3].to_pylist())):
        return None
    if all(map(_ISO.fullmatch, different.to_pylist())):
        return _formed(texts, {"kind": "time", "zone": "UTC"})
    fitting = [each for each in _FORMATS if _formed_or_none(different[:100], each) is not None]
    for each in fitting:
        made = _formed_or_none(texts, each)
        if made is not None and bool(((made.present_numbers >= -(2**31)) & (made.present_numbers < _LAST_S)).all()):
            return made
    return None


def _formed_or_none(texts: pa.Array, form: str) -> Values | None:
    return _formed(texts, {"kind": "time", "format": form, "zone": "UTC"})


def _comma(texts: pa.Array, different: pa.Array) -> Values | None:
    if not pc.any(pc.match_substring(different, ",")).as_py():
        return None
    if not all(map(_COMMA.fullmatch, different.to_pylist())):
        return None
    thousands = {"thousands": "."} if pc.any(pc.match_substring(different, ".")).as_py() else {}
    return _formed(texts, {"kind": "number", "decimal": ",", **thousands})


def _formed(texts: pa.Array, form: Mapping[str, Any]) -> Values | None:
    """Returns texts as numbers, or None if one does not have the form."""
    try:
        numbers = numbers_of(texts, _FORM.validate_python(dict(form)), "")
    except UserError:
        return None
    return Values("int" if pa.types.is_integer(numbers.type) else "float", numbers, form=form)


def _with_unit(name: str, values: Values) -> Values:
    """Returns numbers named as times, in milliseconds or smaller units or as floats, as whole seconds."""
    if values.form or values.kind not in ("int", "float") or not TIMES & set(words_of(name)):
        return values
    present = values.present_numbers
    if not len(present):
        return values
    low, high = present.min(), present.max()
    fits = (unit for unit, size in _PER_SECOND.items() if _FIRST_S * size <= low and high <= _LAST_S * size)
    unit = next(fits, "")
    if not unit or (unit == "s" and values.kind == "int"):
        return values
    seconds = np.floor(np.nan_to_num(values.numbers) / _PER_SECOND[unit]).astype(np.int64)
    return replace(
        values,
        kind="int",
        values=pa.array(seconds, pa.int64(), mask=~values.is_present),
        form={"kind": "time", "unit": unit},
    )

"""Columns in the forms that `data.columns` declares: times, codes, thresholds and numbers as text become numbers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.logs.readers.batches import Rows
from sangam.components.logs.readers.column_types import BINARY, TEXT
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec.data import Logs
from sangam.schemas.spec.forms import CodesForm, Form, NumberForm, ThresholdForm, TimeForm, TimeUnit

_PER_SECOND: dict[TimeUnit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SHOWN = 60


def as_stored(columns: Sequence[Column], logs: Logs) -> list[Column]:
    """Returns the columns as a text format stores them: those with a form are texts."""
    return [
        Column(column.name, "string", is_required=False) if column.name in logs.columns else column
        for column in columns
    ]


def form_problem(form: Form, kind: pa.DataType) -> str | None:
    """Returns why a type of a file cannot have a form; None if it can."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind) or _is_text(kind):
        return None
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    match form:
        case TimeForm():
            if _is_time(kind) or (is_number and form.unit):
                return None
            wanted = "timestamps, dates and texts" + (", and numbers" if form.unit else "; numbers need its `unit`")
        case CodesForm():
            if is_number or pa.types.is_boolean(kind):
                return None
            wanted = "texts, numbers and booleans"
        case ThresholdForm():
            if is_number:
                return None
            wanted = "numbers"
        case NumberForm():
            wanted = "texts"
        case _:
            assert_never(form)
    return f"wrong type (got {kind}); data.columns declares it as {form.kind}, which takes {wanted}"


def with_forms(rows: Rows, path: str, columns: Sequence[Column], logs: Logs) -> Rows:
    """Returns rows whose columns with a form are numbers.

    Raises:
        UserError: a value does not have the form.
    """
    formed = [column for column in columns if column.name in logs.columns]
    if not formed:
        return rows
    arrays = dict(zip(rows.batch.schema.names, rows.batch.columns, strict=True))
    for column in (each for each in formed if each.name in arrays):
        arrays[column.name] = numbers_of(
            arrays[column.name], logs.columns[column.name], f"{path}: column '{column.name}'"
        )
    return replace(rows, batch=pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)))


def numbers_of(array: pa.Array, form: Form, place: str) -> pa.Array:
    """Returns a column as int64 (times, thresholds, codes without decimals) or float64.

    Args:
        array: values as the file has them.
        form: their form.
        place: place for error texts.

    Raises:
        UserError: a value does not have the form.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return array.cast(pa.int64())
    if problem := form_problem(form, array.type):
        raise UserError(f"{place}: {problem}")
    if _is_text(array.type):
        array = _without_empty(array, place)
    match form:
        case TimeForm():
            return _times(array, form, place)
        case CodesForm():
            return _codes(array, form, place)
        case ThresholdForm():
            numbers = _as_numbers(array, place)
            return pc.cast(pc.greater_equal(numbers, form.at_least), pa.int64())
        case NumberForm():
            return _written_numbers(array, form, place)
        case _:
            assert_never(form)


def _times(array: pa.Array, form: TimeForm, place: str) -> pa.Array:
    if form.unit:
        numbers = _as_numbers(array, place)
        per_second = _PER_SECOND[form.unit]
        if pa.types.is_integer(numbers.type):
            return pa.array(np.asarray(numbers.fill_null(0)) // per_second, pa.int64(), mask=_is_null(numbers))
        return pc.floor(pc.divide(numbers, float(per_second))).cast(pa.int64(), safe=False)
    if _is_text(array.type):
        array = _parsed(array, form, place)
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s"), safe=False)
    array = array.cast(pa.timestamp("s", array.type.tz), safe=False) if _floors(array) else _floored(array)
    if array.type.tz is None:
        array = pc.assume_timezone(array, form.zone, ambiguous="earliest", nonexistent="latest")
    return array.cast(pa.int64())


def _floors(array: pa.Array) -> bool:
    return bool(array.type.unit == "s")


def _floored(array: pa.Array) -> pa.Array:
    """Returns timestamps in whole seconds; a cast would round those before 1970 towards it."""
    per_second = _PER_SECOND[array.type.unit]
    ticks = np.asarray(array.cast(pa.int64()).fill_null(0)) // per_second
    return pa.array(ticks, pa.int64(), mask=_is_null(array)).cast(pa.timestamp("s", array.type.tz))


def _parsed(array: pa.Array, form: TimeForm, place: str) -> pa.Array:
    """Returns texts as timestamps, of UTC where a text has a zone."""
    if form.format:
        parsed = pc.strptime(array, format=form.format, unit="s", error_is_null=True)
        _require(array, parsed, place, f"texts have the format {form.format!r}")
        return parsed
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return array.cast(kind)
        except pa.ArrowInvalid:
            continue
    for text in array.drop_null():
        if not any(_casts(text, kind) for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"))):
            raise _refused(text.as_py(), place, "times as 2024-03-01 17:00:00, or give their `format`")
    raise UserError(f"{place}: some times have a zone and others none; write all in one way")


def _codes(array: pa.Array, form: CodesForm, place: str) -> pa.Array:
    texts = _as_texts(array)
    index = pc.index_in(texts, pa.array(list(form.values), texts.type))
    _require(texts, index, place, listed(list(form.values)))
    values = list(form.values.values())
    is_whole = all(float(value).is_integer() for value in values)
    return pa.array(values, pa.float64()).cast(pa.int64() if is_whole else pa.float64()).take(index)


def _written_numbers(array: pa.Array, form: NumberForm, place: str) -> pa.Array:
    texts = array
    for mark in filter(None, (form.thousands, "\u00a0" if form.thousands == " " else None)):
        texts = pc.replace_substring(texts, mark, "")
    if form.decimal != ".":
        # A point would otherwise pass as the mark of decimals.
        texts = pc.if_else(pc.match_substring(texts, "."), pa.scalar("?", texts.type), texts)
        texts = pc.replace_substring(texts, form.decimal, ".")
    return _cast(pc.utf8_trim_whitespace(texts), array, place, f"numbers with {form.decimal!r} before the decimals")


def _as_numbers(array: pa.Array, place: str) -> pa.Array:
    """Returns int64 or float64."""
    if _is_text(array.type):
        trimmed = pc.utf8_trim_whitespace(array)
        try:
            return trimmed.cast(pa.int64())
        except pa.ArrowInvalid:
            return _cast(trimmed, array, place, "numbers")
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    numbers = array.cast(pa.float64())
    return pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))


def _as_texts(array: pa.Array) -> pa.Array:
    if _is_text(array.type):
        return array
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        numbers = array.cast(pa.float64())
        numbers = pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
        is_whole = pc.all(pc.equal(pc.floor(numbers), numbers)).as_py() is not False
        array = numbers.cast(pa.int64()) if is_whole else numbers
    return array.cast(pa.large_string())


def _cast(texts: pa.Array, array: pa.Array, place: str, allowed: str) -> pa.Array:
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        for text, original in zip(texts, array, strict=True):
            if text.is_valid and not _casts(text, pa.float64()):
                raise _refused(original.as_py(), place, allowed) from None
        raise


def _casts(value: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _require(array: pa.Array, read: pa.Array, place: str, allowed: str) -> None:
    lost = pc.and_(array.is_valid(), read.is_null())
    if pc.any(lost).as_py():
        raise _refused(array.filter(lost)[0].as_py(), place, allowed)


def _refused(value: object, place: str, allowed: str) -> UserError:
    text = str(value)
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return UserError(f"{place}: does not have the form that data.columns declares (got '{shown}'); {allowed}")


def _without_empty(array: pa.Array, place: str) -> pa.Array:
    """Returns texts as large strings, null where they are empty."""
    try:
        texts = array.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        raise UserError(f"{place}: has texts that are not UTF-8; write UTF-8") from None
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, texts.type), texts)


def _is_null(array: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(array.is_null())


_CHECKS: tuple[Callable[[pa.DataType], bool], ...] = (*TEXT, *BINARY)


def _is_text(kind: pa.DataType) -> bool:
    return any(check(kind) for check in _CHECKS) and not pa.types.is_decimal(kind)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))

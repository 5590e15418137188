"""The values of a column in one form, independent of file format and type width."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.readers.column_types import BINARY, TEXT, advice, is_list
from sangam.components.logs.readers.forms import numbers_of
from sangam.components.logs.readers.lists import lengths_of
from sangam.components.logs.rows.missing import without_missing
from sangam.schemas.spec.forms import TimeForm
from sangam.schemas.spec.patterns import TableFormat

Kind = Literal["int", "float", "string", "null"]
_TYPES: dict[Kind, pa.DataType] = {"int": pa.int64(), "float": pa.float64(), "string": pa.large_string()}
_MOST_INT = pa.scalar(2**63 - 1, pa.uint64())
_READ = "a spec reads integers, floats, texts and lists of them"


@dataclass(frozen=True, eq=False)
class Values:
    """Some rows of a column.

    Attributes:
        kind: kind of the values; booleans are integers, `null` is a column without values.
        values: one value per row, null if missing; for a list column the concatenated values of all rows.
        lengths: length of each row's list; None for a column of single values.
        form: form in the files, as under data.columns; empty: none.
        absent: texts of the files that stand for no value.
    """

    kind: Kind
    values: pa.Array
    lengths: Any = None
    form: Mapping[str, Any] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()

    @property
    def is_list(self) -> bool:
        """Whether rows have lists of values."""
        return self.lengths is not None

    @functools.cached_property
    def is_present(self) -> Any:
        """Whether each row has a value: not null, NaN, infinite or an empty list."""
        if self.is_list:
            return self.lengths > 0
        present = np.asarray(self.values.is_valid(), bool)
        return present & np.isfinite(self.numbers) if self.kind == "float" else present

    @property
    def num_missing(self) -> int:
        """Number of rows without a value."""
        return int(len(self.is_present) - self.is_present.sum())

    @functools.cached_property
    def numbers(self) -> Any:
        """The numbers as float64, NaN where missing."""
        return self.values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)

    @functools.cached_property
    def present_numbers(self) -> Any:
        """The numbers of rows with a value; all numbers of lists."""
        return self.numbers[np.isfinite(self.numbers)]

    @functools.cached_property
    def counts(self) -> dict[Any, int]:
        """Number of occurrences of each value."""
        return dict(zip(self.different.to_pylist(), self._counted.field(1).to_pylist(), strict=True))

    @property
    def different(self) -> pa.Array:
        """The different values, in the order of the rows."""
        return self._counted.field(0)

    @property
    def num_different(self) -> int:
        """Number of different values."""
        return len(self._counted)

    @functools.cached_property
    def _counted(self) -> pa.StructArray:
        return pc.value_counts(self.values.drop_null())

    @functools.cached_property
    def codes(self) -> Any:
        """A number from 0 for each value, in the order of `different`; -1 where missing."""
        return np.asarray(self.values.dictionary_encode().indices.fill_null(-1), np.int64)

    @functools.cached_property
    def is_binary(self) -> bool:
        """Whether the values are 0 and 1, as integers, booleans, or the floats that pandas makes if one is missing."""
        is_number = self.kind in ("int", "float") and not self.is_list
        return is_number and bool(np.isin(self.present_numbers, (0, 1)).all())


def values_of(name: str, column: pa.Array, file_format: TableFormat) -> Values | str:
    """Returns a column of a file, or the reason why no spec reads it."""
    if not is_list(column.type):
        return _single(column) or _refused(name, column.type)
    lengths, flat = lengths_of(column), _single(column.flatten())
    if flat is None or flat.form:
        return _refused(name, column.type)
    if file_format != "tfrecord" or lengths.max(initial=0) > 1:
        return Values(flat.kind, flat.values, lengths)
    # Every column of a tf.Example is a list.
    places = np.cumsum(lengths) - 1
    return Values(flat.kind, flat.values.take(pa.array(places, pa.int64(), mask=lengths == 0)))


def _refused(name: str, kind: pa.DataType) -> str:
    return f"{kind}: {advice(name, kind) or _READ}"


def joined(parts: Sequence[Values], file_format: TableFormat) -> Values | str:
    """Returns the values of several files as one column, or the reason why that is impossible."""
    typed = [part for part in parts if part.kind != "null"]
    if not typed:
        return "no row that was read has a value"
    kinds = {part.kind for part in typed}
    if kinds == {"int", "float"}:
        kinds = {"float"}
    elif kinds == {"int", "string"} and file_format != "tfrecord":
        # A column of texts takes integers.
        kinds = {"string"}
    elif "string" in kinds and file_format == "csv":
        kinds = {"string"}
    forms = {part.is_list for part in typed}
    if len(kinds) > 1 or (len(forms) > 1 and not _may_be_lists(typed)):
        return f"its type differs between files (got {', '.join(sorted(kinds))}{' and lists' if any(forms) else ''})"
    kind = kinds.pop()
    if not any(forms):
        form = next((part.form for part in typed if part.form), {})
        return Values(kind, pa.concat_arrays([part.values.cast(_TYPES[kind]) for part in parts]), form=form)
    lengths = [part.is_present.astype(np.int64) if part.lengths is None else part.lengths for part in parts]
    valid = [part.values if part.is_list else part.values.filter(part.values.is_valid()) for part in parts]
    return Values(kind, pa.concat_arrays([each.cast(_TYPES[kind]) for each in valid]), np.concatenate(lengths))


def _as_written(form: TimeForm) -> dict[str, Any]:
    """Returns a form of typed times with the zone that is a guess."""
    return {"kind": form.kind, "zone": form.zone}


def _may_be_lists(parts: Sequence[Values]) -> bool:
    """Returns whether single values may become lists of one: not floats, where rows without finite ones would be
    lost."""
    return all(part.kind != "float" for part in parts)


def _single(array: pa.Array) -> Values | None:
    """Returns single values in the widest type of their kind; None if a spec reads none of their type."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    kind, types = array.type, pa.types
    if types.is_null(kind):
        return Values("null", array)
    if types.is_timestamp(kind) or types.is_date(kind):
        form = TimeForm(kind="time")
        return Values("int", numbers_of(array, form, ""), form=_as_written(form))
    if types.is_uint64(kind) and pc.any(pc.greater(array, _MOST_INT)).as_py():
        return Values("string", array.cast(pa.large_string()))
    if types.is_integer(kind) or types.is_boolean(kind):
        return Values("int", without_missing(array.cast(pa.int64())))
    if types.is_floating(kind):
        return Values("float", array.cast(pa.float64()))
    if any(check(kind) for check in TEXT):
        return Values("string", without_missing(array.cast(pa.large_string())))
    if types.is_decimal(kind):
        return Values("float", array.cast(pa.float64()))
    if any(check(kind) for check in BINARY):
        texts = [None if each is None else each.decode(errors="replace") for each in array.to_pylist()]
        return Values("string", without_missing(pa.array(texts, pa.large_string())))
    return None

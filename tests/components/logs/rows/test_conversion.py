import decimal
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sangam.components.logs.rows.conversion import convert
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from tests.errors import place_and_value

INT = Column("n", "int", is_required=False)
FLOAT = Column("x", "float", is_required=False)
STRING = Column("s", "string", is_required=False)
INTS = Column("ns", "int", is_list=True, is_required=False)
LIKE = Column("like", "int", is_label=True, is_binary=True)
RATING = Column("rating", "float", is_label=True)


def converted(column: Column, array: pa.Array) -> pa.Array:
    return convert(pa.RecordBatch.from_arrays([array], [column.name]), [column], "file").batch.column(0)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
)
def test_integers_of_any_width_become_int64_and_zeros_stay(kind: pa.DataType) -> None:
    assert converted(INT, pa.array([0, None, 7], kind)).to_pylist() == [[0], None, [7]]


def test_booleans_become_zero_and_one() -> None:
    assert converted(INT, pa.array([False, True, None])).to_pylist() == [[0], [1], None]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.uint64()])
def test_numbers_of_any_width_become_float32_and_zeros_stay(kind: pa.DataType) -> None:
    values = np.array([0, 2], dtype=kind.to_pandas_dtype())
    assert converted(FLOAT, pa.array(values, kind)).to_pylist() == [[0.0], [2.0]]


def test_an_integer_that_float32_cannot_hold_exactly_is_rounded() -> None:
    assert converted(FLOAT, pa.array([2**24 + 1])).to_pylist() == [[2.0**24]]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["", None, "å"]),
        pa.array(["", None, "å"], pa.large_string()),
        pa.array([b"", None, "å".encode()]),
        pa.array(["", None, "å"]).dictionary_encode(),
    ],
)
def test_text_of_any_kind_becomes_bytes_and_an_empty_text_is_missing(array: pa.Array) -> None:
    result = convert(pa.RecordBatch.from_arrays([array], ["s"]), [STRING], "file")
    assert result.batch.column(0).to_pylist() == [None, None, ["å".encode()]]
    assert result.ignored == {}


def test_an_empty_text_in_a_list_is_left_out_with_its_weight() -> None:
    ids = Column("ids", "string", is_list=True, is_required=False)
    weights = Column("w", "float", is_list=True, is_required=False, beside=("ids",))
    arrays = [pa.array([["", "a", ""], [""]]), pa.array([[1.0, 2.0, 3.0], [4.0]])]
    result = convert(pa.RecordBatch.from_arrays(arrays, ["ids", "w"]), [ids, weights], "file")
    assert result.batch.to_pydict() == {"ids": [[b"a"], []], "w": [[2.0], []]}
    assert result.ignored == {}


def test_the_integer_that_stands_for_none_in_requests_is_missing_and_counted() -> None:
    for column, array in ((INT, pa.array([-(2**63), 0])), (INTS, pa.array([[-(2**63)], [0]]))):
        result = convert(pa.RecordBatch.from_arrays([array], [column.name]), [column], "file")
        assert [values or [] for values in result.batch.column(0).to_pylist()] == [[], [0]]
        assert sum(result.ignored.values()) == 1


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.large_list(pa.int64())])
def test_a_null_list_is_an_empty_one_and_lists_keep_their_order(kind: pa.DataType) -> None:
    array = pa.array([[3, 0, 3], None, [], [-1]], kind)
    assert converted(INTS, array).to_pylist() == [[3, 0, 3], [], [], [-1]]
    assert converted(INTS, array.slice(2)).to_pylist() == [[], [-1]]


def test_nulls_inside_a_list_are_left_out_and_counted_not_made_zeros() -> None:
    array = pa.array([[None, 1, None], [None], [2]])
    result = convert(pa.RecordBatch.from_arrays([array], ["ns"]), [INTS], "file")
    assert result.batch.column(0).to_pylist() == [[1], [], [2]]
    assert result.ignored == {"null in list: ns": 3}


def test_a_column_of_nulls_alone_has_no_values() -> None:
    assert converted(INT, pa.nulls(2)).to_pylist() == [None, None]
    assert converted(INTS, pa.nulls(2)).to_pylist() == [[], []]
    assert converted(INTS, pa.array([[], []], pa.list_(pa.null()))).to_pylist() == [[], []]


def test_what_is_no_number_is_a_missing_value_and_counted() -> None:
    array = pa.array([np.nan, np.inf, -np.inf, 1e300, 0.0, None])
    result = convert(pa.RecordBatch.from_arrays([array], ["x"]), [FLOAT], "file")
    assert result.batch.column(0).to_pylist() == [None, None, None, None, [0.0], None]
    assert result.ignored == {"not finite: x": 4}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_labels_that_pandas_made_floats_because_one_is_missing_are_labels(kind: pa.DataType) -> None:
    written = np.array([0, np.nan, 1], kind.to_pandas_dtype())
    batch = pa.RecordBatch.from_arrays([pa.array(written, kind)], ["like"])
    made = convert(batch, [LIKE], "file")
    assert made.batch.column(0).to_pylist() == [[0], [1]]
    assert made.dropped == {"label missing: like": 1}


@pytest.mark.parametrize("value", [0.5, 2.0, float("inf")])
def test_other_floats_are_no_labels(value: float) -> None:
    with pytest.raises(UserError, match=place_and_value("file: column 'like'", f"(got {value})")):
        converted(LIKE, pa.array([0.0, value]))


def test_decimals_and_booleans_are_numbers_and_binary_of_a_fixed_size_is_text() -> None:
    prices = pa.array([decimal.Decimal("1.50"), None], pa.decimal128(24, 2))
    assert converted(FLOAT, prices).to_pylist() == [[1.5], None]
    assert converted(FLOAT, pa.array([True, False, None])).to_pylist() == [[1.0], [0.0], None]
    assert converted(STRING, pa.array([b"0" * 16, None], pa.binary(16))).to_pylist() == [[b"0" * 16], None]


def test_rows_without_a_label_are_dropped_and_counted_once() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([0, None, None, 1]), pa.array([1.0, None, 2.0, np.nan]), pa.array([1, 2, 3, 4])],
        ["like", "rating", "n"],
    )
    result = convert(batch, [LIKE, INT, RATING], "file")
    assert result.batch.to_pydict() == {"like": [[0]], "n": [[1]], "rating": [[1.0]]}
    assert result.dropped == {"label missing: like": 2, "label missing: rating": 1}


def test_a_label_other_than_0_and_1_is_an_error() -> None:
    with pytest.raises(UserError, match=place_and_value("file: column 'like'", "(got 2) ... 0 or 1")):
        converted(LIKE, pa.array([0, 2, None]))


def test_rows_without_a_label_stay_where_it_may_be_masked() -> None:
    like, rating = replace(LIKE, is_required=False), replace(RATING, is_required=False)
    batch = pa.RecordBatch.from_arrays([pa.array([0, None, 1]), pa.array([None, 1.0, np.nan])], ["like", "rating"])
    result = convert(batch, [like, rating], "file")
    assert result.batch.to_pydict() == {"like": [[0], None, [1]], "rating": [None, [1.0], None]}
    assert result.dropped == {}
    assert result.ignored == {"not finite: rating": 1}


def test_the_places_of_the_rows_that_remain_are_told() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([0, None, 1, None, 1])], ["like"])
    assert convert(batch, [LIKE], "file").rows.tolist() == [0, 2, 4]


def test_what_says_which_examples_take_part_is_0_or_1_or_missing() -> None:
    clicked = Column("clicked", "int", is_required=False, is_binary=True)
    assert converted(clicked, pa.array([True, None, False])).to_pylist() == [[1], None, [0]]
    with pytest.raises(UserError, match=place_and_value("column 'clicked'", "(got 3) ... 0 or 1")):
        converted(clicked, pa.array([1, 3]))


def test_a_weight_or_time_under_0_is_an_error_and_one_that_is_no_number_is_missing() -> None:
    weight = Column("w", "float", is_not_negative=True)
    with pytest.raises(UserError, match=place_and_value("file: column 'w'", "(got -0.5)")):
        converted(weight, pa.array([0.0, -0.5]))
    assert converted(weight, pa.array([0.0, np.nan, -np.inf])).to_pylist() == [[0.0], None, None]


def test_an_id_beyond_64_bits_signed_is_an_error() -> None:
    with pytest.raises(UserError, match=place_and_value("file: column 'n'", "(got 18446744073709551615)")):
        converted(INT, pa.array([1, 2**64 - 1], pa.uint64()))


@pytest.mark.parametrize(
    ("column", "array", "place", "value"),
    [
        (INT, pa.array([1.0]), "'n'", "(got double)"),
        (INT, pa.array(["1"]), "'n'", "(got string)"),
        (INT, pa.array([[1]]), "'n'", "(got list<item: int64>)"),
        (FLOAT, pa.array(["1"]), "'x'", "(got string)"),
        (INT, pa.array([0], pa.timestamp("us", "UTC")), "'n'", "(got timestamp[us, tz=UTC]) ... kind: time"),
        (STRING, pa.array([{"id": "u"}]), "'s'", "(got struct<id: string>) ... s.id"),
        (STRING, pa.array([decimal.Decimal(1)]), "'s'", "(got decimal128"),
        (STRING, pa.array([1.5]), "'s'", "(got double)"),
        (INTS, pa.array([1]), "'ns'", "(got int64)"),
        (INTS, pa.array([["a"]]), "'ns'", "(got list<item: string>)"),
    ],
)
def test_any_other_type_is_an_error(column: Column, array: pa.Array, place: str, value: str) -> None:
    with pytest.raises(UserError, match=place_and_value(f"file: column {place}", value)):
        converted(column, array)

"""Vectors, and lists of weights beside their ids."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.components.logs.rows.conversion import convert
from sangam.components.logs.rows.limits import Limits
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column

UNLIMITED = Limits()
VECTOR = Column("v", "float", is_list=True, is_required=False, length=2)
IDS = Column("ids", "int", is_list=True, is_required=False, is_id=True)
WEIGHTS = Column("w", "float", is_list=True, is_required=False, beside=("ids",))
OTHERS = Column("w2", "float", is_list=True, is_required=False, beside=("ids",))


def converted(
    columns: list[Column], *arrays: Any, first_row: int = 0, limits: Limits = UNLIMITED
) -> tuple[list[Any], dict[str, int]]:
    """Returns the lists of each column, and what was ignored."""
    given = [array if isinstance(array, pa.Array) else pa.array(array) for array in arrays]
    batch = pa.RecordBatch.from_arrays(given, [column.name for column in columns])
    result = convert(batch, columns, "file", first_row, limits)
    return [column.to_pylist() for column in result.batch.columns], dict(result.ignored)


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float16(), 2), pa.large_list(pa.int32())])
def test_vectors_keep_their_zeros_and_a_null_is_a_missing_one(kind: pa.DataType) -> None:
    numbers = np.array([0, 1, 2, 3], kind.value_type.to_pandas_dtype())
    array = pa.array([numbers[:2], None, numbers[2:]], kind)
    assert converted([VECTOR], array) == ([[[0.0, 1.0], None, [2.0, 3.0]]], {})
    assert converted([VECTOR], array.slice(1)) == ([[None, [2.0, 3.0]]], {})


def test_an_empty_vector_is_missing_as_is_one_that_lacks_a_value() -> None:
    found, ignored = converted([VECTOR], [[], [1.0, None], [np.nan, np.inf], [4.0, 5.0]])
    assert found == [[None, None, None, [4.0, 5.0]]]
    assert ignored == {"null in list: v": 1, "not finite: v": 2}


def test_a_vector_of_another_length_is_an_error_that_names_the_row() -> None:
    text = r"^file: column 'v': wrong length in row 12 \(got 3 floats\); 2, as in dim, or none"
    with pytest.raises(UserError, match=text):
        converted([VECTOR], [[1.0, 2.0], [1.0, 2.0, 3.0]], first_row=10)


def test_weights_stand_beside_their_ids() -> None:
    found, ignored = converted(
        [IDS, WEIGHTS], [[7, 8], [], None], pa.array([[0.5, 0], None, []], pa.list_(pa.float32()))
    )
    assert found == [[[7, 8], [], []], [[0.5, 0.0], [], []]]
    assert ignored == {}


def test_an_id_goes_with_each_of_its_weights_and_they_with_it() -> None:
    ids, first, second = [[1, None, 3, 4], [5]], [[0.1, 0.2, np.nan, 0.5], [1.0]], [[1.0, 2.0, 3.0, None], [2.0]]
    found, ignored = converted([WEIGHTS, IDS, OTHERS], first, ids, second)
    assert found == [[pytest.approx([0.1]), [1.0]], [[1], [5]], [[1.0], [2.0]]]
    assert ignored == {"null in list: ids": 1, "not finite: w": 1, "null in list: w2": 1}


@pytest.mark.parametrize("weights", [[[1.0], None], [[1.0], [1.0, 2.0, 3.0]]])
def test_another_number_of_weights_than_ids_is_an_error_that_names_the_row(weights: Any) -> None:
    text = (
        rf"^file: column 'w': is not as long as column 'ids' in row 2 \(got {len(weights[1] or ())} and 2 values\); "
        "log one value for each id"
    )
    with pytest.raises(UserError, match=text):
        converted([IDS, WEIGHTS], [[7], [8, 9]], weights)


def test_what_a_list_has_too_many_of_is_cut_off_and_counted() -> None:
    ten_thousand = list(range(10_000))
    found, ignored = converted([IDS], [ten_thousand, [1], None], limits=Limits(max_list_length=3))
    assert found == [[[0, 1, 2], [1], []]]
    assert ignored == {"over max_list_length: ids": 9_997}


def test_the_end_that_a_sequence_reads_stays_and_weights_go_with_their_ids() -> None:
    last = replace(IDS, last_values=2)
    weights = [[0.0, 1.0, 2.0, 3.0, None, 5.0], [7.0]]
    found, ignored = converted([WEIGHTS, last], weights, [[0, 1, 2, 3, 4, 5], [7]], limits=Limits(max_list_length=3))
    assert found == [[[0.0, 5.0], [7.0]], [[0, 5], [7]]]
    assert ignored == {"null in list: w": 1, "over max_list_length: ids": 3, "over max_list_length: w": 3}


def test_vectors_are_not_cut() -> None:
    assert converted([VECTOR], [[1.0, 2.0]], limits=Limits(max_list_length=1)) == ([[[1.0, 2.0]]], {})


def test_an_id_that_is_too_long_is_missing_or_its_row_is_dropped() -> None:
    long = "x" * 10_000_000
    user, friend = (Column(name, "string", is_required=name == "user", is_id=True) for name in ("user", "friend"))
    tags = Column("tags", "string", is_list=True, is_required=False, is_id=True)
    arrays = [pa.array(["ann", long, None]), pa.array([long, "bob", "eve"]), pa.array([["a", long], [], [None]])]
    batch = pa.RecordBatch.from_arrays(arrays, ["user", "friend", "tags"])
    result = convert(batch, [user, friend, tags], "file", limits=Limits(max_id_bytes=1024))
    assert result.batch.to_pydict() == {"user": [[b"ann"], None], "friend": [None, [b"eve"]], "tags": [[b"a"], []]}
    assert result.dropped == {"id too long: user": 1}
    assert result.ignored == {"id too long: friend": 1, "id too long: tags": 1, "null in list: tags": 1}

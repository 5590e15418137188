"""Columns of Arrow batches as arrays: values, hashes of values, and ids of examples."""

from typing import Any

import numpy as np
import pytest

from sangam.components.steps.evaluator.metrics.columns import MISSING, example_ids, first_values, keys, numbers

pyarrow = pytest.importorskip("pyarrow")


def batch(**columns: list[Any]) -> Any:
    return pyarrow.RecordBatch.from_arrays([pyarrow.array(values) for values in columns.values()], list(columns))


def test_the_first_value_of_each_example_and_null_where_there_is_none() -> None:
    lists = batch(id=[[1], [], None, [2, 3]], text=[[b"a"], [b"b"], [b"c"], [b"d"]])
    assert first_values(lists, "id").to_pylist() == [1, None, None, 2]
    assert first_values(lists, "text").to_pylist() == [b"a", b"b", b"c", b"d"]
    assert first_values(lists, "other").to_pylist() == [None] * 4
    assert first_values(lists.slice(1, 3), "text").to_pylist() == [b"b", b"c", b"d"]
    assert first_values(lists.slice(3), "id").to_pylist() == [2]


def test_numbers_of_any_type_and_nan_for_missing_ones() -> None:
    assert numbers(pyarrow.array([2**60 + 1, 3])).tolist() == [float(2**60), 3.0]
    np.testing.assert_array_equal(numbers(pyarrow.array([0.5, None], pyarrow.float32())), [0.5, np.nan])
    assert np.isnan(numbers(pyarrow.nulls(2))).all()


@pytest.mark.parametrize(
    "values",
    [[17, 18, None, 17, -17, 0], [0.5, 0.25, None, 0.5, -0.5, 0.0], [b"17", b"18", None, b"17", b"", b"\0"]],
)
def test_keys_of_equal_values_are_equal_and_of_missing_ones_zero(values: list[Any]) -> None:
    first, second, missing, again, *others = keys(pyarrow.array(values)).tolist()
    assert first == again
    assert missing == MISSING
    assert len({first, second, missing, *others}) == 5


def test_keys_of_texts_depend_on_every_byte_and_not_on_where_they_lie() -> None:
    texts = [b"", b"a", b"b", b"ab", b"ba", b"a\0", b"\0a", "ä".encode(), "日本語".encode(), b"x" * 5000]
    found = keys(pyarrow.array(texts)).tolist()
    assert len(set(found)) == len(texts)
    assert keys(pyarrow.array([b"z" * 3, *reversed(texts)])[1:]).tolist() == found[::-1]
    assert keys(pyarrow.array(texts, pyarrow.large_binary())).tolist() == found


def test_keys_of_more_bytes_than_are_hashed_at_once() -> None:
    texts = [b"%d" % number * 100_000 for number in range(30)]
    assert keys(pyarrow.array(texts)).tolist() == [keys(pyarrow.array([text]))[0] for text in texts]


def test_keys_of_a_million_numbers_and_texts_do_not_collide_and_are_spread() -> None:
    numbered = np.arange(1_000_000)
    for values in (pyarrow.array(numbered), pyarrow.array(numbered).cast(pyarrow.string())):
        found = keys(values)
        assert len(np.unique(found)) == 1_000_000
        counts = np.bincount((found % np.uint64(100)).astype(int), minlength=100)
        assert np.abs(counts - 10_000).max() < 600


def test_an_example_has_the_same_id_wherever_it_is_written_and_with_whatever_empty_columns() -> None:
    lists = batch(a=[[1], [2], [3]], b=[[b"x", b"y"], [], None], c=[[0.5], [0.5], [0.5]])
    ids = example_ids(lists)
    assert len(set(ids.tolist())) == 3
    assert example_ids(lists.slice(1)).tolist() == ids[1:].tolist()
    turned = batch(c=[[0.5], [0.5]], other=[[], None], a=[[3], [1]], b=[[], [b"x", b"y"]])
    assert example_ids(turned).tolist() == [ids[2], ids[0]]
    alone = batch(a=[[2], [3]], c=[[0.5], [0.5]])  # As decoded from tf.Examples none of which has the column.
    assert example_ids(alone).tolist() == ids[1:].tolist()


def test_ids_depend_on_the_column_the_value_and_its_place_in_a_list() -> None:
    lists = [
        batch(a=[[1]], b=[[2]]),
        batch(a=[[2]], b=[[1]]),
        batch(a=[[1, 2]]),
        batch(a=[[2, 1]]),
        batch(a=[[1, 1]]),
        batch(a=[[1, 1, 1, 1]]),
        batch(a=[[1]]),
    ]
    assert len({int(example_ids(each)[0]) for each in lists}) == len(lists)

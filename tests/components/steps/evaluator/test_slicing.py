import json

import pyarrow as pa

from sangam.components.steps.evaluator.slices.outside import texts_of
from sangam.components.steps.evaluator.slices.slicing import slice_codes
from tests.components.sample_parts import Initial, Kept, Length

_CITIES = [b"Paris", b"N\xeemes", b"N\xefmes", b"N\xeames", "Nîmes".encode(), None, b"N\xeemes"]


def test_texts_that_are_not_utf8_are_slices_of_their_own() -> None:
    made = slice_codes({"city": None}, {"city": pa.array(_CITIES, pa.binary())}, len(_CITIES))
    names = [json.loads(made.slices[code])[0][1] if code >= 0 else None for code in made.codes]
    assert names == ["Paris", "N\\xeemes", "N\\xefmes", "N\\xeames", "Nîmes", None, "N\\xeemes"]
    assert len(set(made.codes)) == 6


def test_one_of_them_can_be_named_by_its_escaped_text() -> None:
    made = slice_codes({"city": "N\\xeemes"}, {"city": pa.array(_CITIES, pa.binary())}, len(_CITIES))
    assert [index for index, code in enumerate(made.codes) if code >= 0] == [1, 6]


def test_slices_of_others_see_values_of_their_columns_types_and_missing_ones_as_nan_0_and_nothing() -> None:
    def seen(**columns: pa.Array) -> list[list[object]]:
        part = Kept(kind="kept")
        assert texts_of(part, pa.RecordBatch.from_pydict(columns)).to_pylist() == ["x"] * 3
        return part.seen.pop()

    floats = pa.array([[1.5], [], None], pa.list_(pa.float32()))
    ints = pa.array([[2**60 + 1], None, []], pa.list_(pa.int64()))
    texts = pa.array([["Nîmes".encode()], [], [b"N\xeemes"]], pa.list_(pa.binary()))
    kept = seen(at=floats, user=ints, town=texts)
    assert str(kept) == "[[1.5, nan, nan], [1152921504606846977, 0, 0], ['Nîmes', '', 'N\\\\xeemes']]"
    assert str(seen(other=floats)) == "[[nan, nan, nan], [0, 0, 0], ['', '', '']]"


def test_slices_of_others_see_lists_and_an_example_without_a_text_is_in_none() -> None:
    lists = pa.array([[b"a", b"b"], [], None, [b"c"]], pa.list_(pa.binary()))
    long = texts_of(Length(kind="length", column="tags", many=2), pa.RecordBatch.from_pydict({"tags": lists}))
    assert long.to_pylist() == ["long", "short", "short", "short"]
    first = texts_of(Initial(kind="initial", column="tags"), pa.RecordBatch.from_pydict({"tags": lists}))
    assert first.to_pylist() == ["a", None, None, "c"]
    absent = texts_of(Length(kind="length", column="tags", many=1), pa.RecordBatch.from_pydict({"other": lists}))
    assert absent.to_pylist() == ["short"] * 4

import json

import pyarrow as pa

from sangam.components.steps.evaluator.slices.slicing import slice_codes

_CITIES = [b"Paris", b"N\xeemes", b"N\xefmes", b"N\xeames", "Nîmes".encode(), None, b"N\xeemes"]


def test_texts_that_are_not_utf8_are_slices_of_their_own() -> None:
    made = slice_codes({"city": None}, {"city": pa.array(_CITIES, pa.binary())}, len(_CITIES))
    names = [json.loads(made.slices[code])[0][1] if code >= 0 else None for code in made.codes]
    assert names == ["Paris", "N\\xeemes", "N\\xefmes", "N\\xeames", "Nîmes", None, "N\\xeemes"]
    assert len(set(made.codes)) == 6


def test_one_of_them_can_be_named_by_its_escaped_text() -> None:
    made = slice_codes({"city": "N\\xeemes"}, {"city": pa.array(_CITIES, pa.binary())}, len(_CITIES))
    assert [index for index, code in enumerate(made.codes) if code >= 0] == [1, 6]

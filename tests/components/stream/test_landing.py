"""Names of files that have landed, beside those of a folder that fed the same root."""

import pytest

from sangam.components.stream.landing import number_of


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("000000000002/2026-03-07.likes.parquet", 2),
        ("2026-03-05/part-000.parquet", 0),
        ("20260305/part-000.parquet", 0),
    ],
)
def test_only_a_folder_of_twelve_digits_has_landed(name: str, number: int) -> None:
    assert number_of(name) == number

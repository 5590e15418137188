"""Numbers of rows and sizes of memory, as people write and read them."""

import pytest

from schemas.errors import UserError
from schemas.quantities import parse_bytes, parse_rows, shown_bytes, shown_count


def test_rows_are_read_by_table() -> None:
    assert parse_rows("--rows", "users=80e6, posts=55M,tags=1.5k,days=7,words=3_000") == {
        "users": 80_000_000,
        "posts": 55_000_000,
        "tags": 1500,
        "days": 7,
        "words": 3000,
    }
    assert parse_rows("--rows", " ") == {}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("80e6", "--rows: is no list of table=rows (got '80e6'); write users=80e6,posts=55e6"),
        ("users=1,=2", "--rows: is no list of table=rows (got '=2'); write users=80e6,posts=55e6"),
        ("users=1,", "--rows: is no list of table=rows (got ''); write users=80e6,posts=55e6"),
        ("users=", "--rows: is no number of rows for 'users' (got ''); write 80e6 or 80M"),
        ("users=80Q", "--rows: is no number of rows for 'users' (got '80Q'); write 80e6 or 80M"),
        ("users=-3", "--rows: is no number of rows for 'users' (got '-3'); write 80e6 or 80M"),
        ("users=0", "--rows: is no number of rows for 'users' (got '0'); write 80e6 or 80M"),
        ("users=1.5", "--rows: is no number of rows for 'users' (got '1.5'); write 80e6 or 80M"),
        ("users=1e99", "--rows: is no number of rows for 'users' (got '1e99'); write 80e6 or 80M"),
        ("users=inf", "--rows: is no number of rows for 'users' (got 'inf'); write 80e6 or 80M"),
        ("users=1,users=2", "--rows: gives table 'users' twice (got 'users=1,users=2'); give every table once"),
    ],
)
def test_rows_that_cannot_be_read_are_told(text: str, error: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_rows("--rows", text)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("text", "size"),
    [("64GB", 64 * 10**9), ("64GiB", 64 * 2**30), ("1.5 tb", 1_500_000_000_000), ("512 B", 512), ("0.3kB", 300)],
)
def test_sizes_are_decimal_or_binary(text: str, size: int) -> None:
    assert parse_bytes("--memory-per-rank", text) == size


@pytest.mark.parametrize("text", ["", "64", "GB", "-1GB", "0GB", "64 GBit", "1e30TB"])
def test_sizes_that_cannot_be_read_are_told(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_bytes("--memory-per-rank", text)
    assert str(caught.value) == (
        f"--memory-per-rank: is no size (got '{text}'); write a number and its unit, for example 64GB or 64GiB"
    )


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_600, "1.00 MB"),
        (13_142_000_000, "13.1 GB"),
        (4.3e14, "430 TB"),
        (1.28e15, "1.28 PB"),
        (1.28e19, "12,800 PB"),
    ],
)
def test_sizes_are_shown_with_three_digits(number: float, shown: str) -> None:
    assert shown_bytes(number) == shown


def test_counts_are_shown_in_words() -> None:
    assert [shown_count(number) for number in (12, 36_100, 6.63e9, 1e14)] == [
        "12",
        "36.1 thousand",
        "6.63 billion",
        "100 trillion",
    ]

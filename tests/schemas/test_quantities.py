"""Numbers of rows and sizes of memory, as people write and read them."""

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.quantities import parse_bytes, parse_rows, readable, shown_bytes, shown_count, shown_seconds
from tests.errors import tells


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
    ("text", "place", "value"),
    [
        ("80e6", "--rows", "(got '80e6')"),
        ("users=1,=2", "--rows", "(got '=2')"),
        ("users=1,", "--rows", "(got '')"),
        ("users=", "--rows", "(got '')"),
        ("users=80Q", "--rows", "(got '80Q')"),
        ("users=-3", "--rows", "(got '-3')"),
        ("users=0", "--rows", "(got '0')"),
        ("users=1.5", "--rows", "(got '1.5')"),
        ("users=1e99", "--rows", "(got '1e99')"),
        ("users=inf", "--rows", "(got 'inf')"),
        ("users=1,users=2", "--rows", "(got 'users=1,users=2')"),
    ],
)
def test_rows_that_cannot_be_read_are_told(text: str, place: str, value: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_rows("--rows", text)
    assert tells(str(caught.value), place, value)


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
    assert tells(str(caught.value), "--memory-per-rank", f"(got '{text}')")


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


def test_a_duration_has_its_two_largest_units_and_no_digit_that_is_not_known() -> None:
    shown = [shown_seconds(seconds) for seconds in (0, 0.24, 9.94, 9.96, 59.6, 157, 3725, 97200)]
    assert shown == ["0 s", "0.2 s", "9.9 s", "10 s", "1 min 00 s", "2 min 37 s", "1 h 02 min", "1 d 3 h"]
    assert shown_seconds(8.3, is_rough=True) == "8 s"


def test_numbers_of_a_document_are_as_long_as_they_are_known() -> None:
    document = {"auc": 0.7428262361655674, "num_examples": 20000.0, "rates": (12171.6321, 1e-7 / 3), "kept": [True, 7]}
    shown = {"auc": 0.742826, "num_examples": 20000, "rates": [12171.632, 3.33333e-8], "kept": [True, 7]}
    assert readable(document) == shown
    assert type(readable(20000.0)) is int
    assert readable({"at": 1_709_856_000.1239, "undefined": float("nan"), "day": None}) == {
        "at": 1_709_856_000.124,
        "undefined": None,
        "day": None,
    }

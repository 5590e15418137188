"""An error is found by its place and value under any sentence, and no other error is."""

import pytest

from tests.errors import mentions, tells

ERROR = "spec.yaml: line 3: data.kind: unknown kind (got 'day'); one of: 'days', 'splits'"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("data.kind", "(got 'day')"),
        ("data.kind", "(got 'day') ... 'splits'"),
        ("line ...: data.kind", "(got ...)"),
        ("data.kind", "unknown"),
    ],
)
def test_an_error_is_found_by_its_place_and_value(place: str, value: str) -> None:
    assert tells(f"other: is missing\n{ERROR}", place, value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("kind", "(got 'day')"),
        ("a.kind", "(got 'day')"),
        ("data", "(got 'day')"),
        ("data.kind", "(got 'days')"),
        ("data.kind", "(got 'day') ... 'weeks'"),
        ("data.kind", "'splits' ... (got 'day')"),
        ("data.kind", "is missing"),
    ],
)
def test_another_error_is_not(place: str, value: str) -> None:
    assert not tells(f"{ERROR}\nother: is missing", place, value)


def test_a_sentence_mentions_names_and_numbers_in_their_order() -> None:
    reason = "auc 0.6500 is below the bound 0.7000"
    assert mentions(reason, "auc 0.6500 ... below ... 0.7000")
    assert not mentions(reason, "0.7000 ... 0.6500")
    assert not mentions(reason, "auc 0.6500 ... above")

"""What names say: words, ids, actions, and the names that a spec allows."""

import pytest

from sangam.pipelines.drafting.names import entity_of, is_action, is_flag, name_of, plural_of


@pytest.mark.parametrize(
    ("column", "taken", "name"),
    [
        ("unit_price", (), "unit_price"),
        ("unitPrice", (), "unit_price"),
        ("Unit Price (GBP)", (), "unit_price_gbp"),
        ("2nd", (), "column_2_nd"),
        ("é", (), "column"),
        ("a", ("a",), "a_2"),
        ("a", ("a", "a_2"), "a_3"),
        ("x" * 70, (), "x" * 63),
        ("x" * 70, ("x" * 63,), "x" * 61 + "_2"),
    ],
)
def test_a_name_is_one_that_a_spec_allows(column: str, taken: tuple[str, ...], name: str) -> None:
    assert name_of(column, taken) == name


def test_what_an_id_stands_for() -> None:
    assert [entity_of(name) for name in ("user_id", "userID", "ad_group_id", "id", "paid")] == [
        "user",
        "user",
        "ad_group",
        "",
        "",
    ]
    assert [plural_of(noun) for noun in ("user", "category", "day", "box")] == ["users", "categories", "days", "boxes"]


@pytest.mark.parametrize(
    "column", ["click", "is_clicked", "addToCart", "long_watch", "reorder", "liked", "shares", "skipped"]
)
def test_actions(column: str) -> None:
    assert is_action(column)
    assert not is_flag(column)


@pytest.mark.parametrize("column", ["is_premium", "has_photo", "liked_before", "ever_bought", "previous_click"])
def test_flags(column: str) -> None:
    assert is_flag(column)
    assert not is_action(column)


@pytest.mark.parametrize("column", ["bulk", "never_married", "income", "likelihood", "player", "bookish"])
def test_neither(column: str) -> None:
    assert not is_action(column)
    assert not is_flag(column)

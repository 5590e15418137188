"""The columns that a spec reads from the logs."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.columns import columns, serving_columns
from sangam.schemas.parts.columns import Column
from tests.errors import place_and_value
from tests.schemas.sample_inputs import EVERY_KIND
from tests.schemas.sample_specs import loaded


def test_each_kind_of_feature_and_task_has_its_column(tmp_path: Path) -> None:
    assert columns(loaded(tmp_path)) == [
        Column(name="age", type="float", is_required=False),
        Column(name="friend", type="string", is_required=False, is_id=True),
        Column(name="like", type="int", is_label=True, is_after_event=True, is_binary=True),
        Column(name="rating", type="float", is_label=True, is_after_event=True),
        Column(name="recent", type="string", is_list=True, is_required=False, is_id=True),
        Column(name="tags", type="string", is_list=True, is_required=False, is_id=True),
        Column(name="user_id", type="string", is_id=True),
    ]


def test_all_that_the_readers_of_a_column_say_of_it_is_known() -> None:
    after = {"is_after_event": True}
    assert columns(EVERY_KIND) == [
        Column(name="buy", type="int", is_label=True, is_binary=True, **after),
        Column(name="click", type="int", is_label=True, is_binary=True, **after),
        Column(name="image", type="float", is_list=True, length=4),
        Column(name="item", type="int", is_id=True),
        Column(name="page", type="float", is_required=False),
        Column(name="place", type="int", is_id=True),
        Column(name="position", type="int"),
        Column(name="posted", type="int", is_required=False, time="other"),
        Column(name="price", type="float"),
        Column(name="price_paid", type="float", is_required=False, is_not_negative=True, **after),
        Column(name="rating", type="float", is_required=False, is_label=True, **after),
        Column(name="recent", type="int", is_list=True, is_required=False, is_id=True),
        Column(name="seconds", type="float", is_label=True, is_not_negative=True, **after),
        Column(name="seen", type="int", is_required=False, time="other"),
        Column(name="tag_weights", type="float", is_list=True, is_required=False, beside=("tags",)),
        Column(name="tags", type="string", is_list=True, is_required=False, is_id=True),
        Column(name="time", type="int", time="event"),
        Column(name="user", type="string", is_id=True),
    ]


def test_a_row_without_a_masked_label_stays() -> None:
    assert [column.name for column in columns(EVERY_KIND) if column.is_masked] == ["rating"]


def test_predictions_need_neither_bias_features_nor_what_is_known_after_the_event() -> None:
    needless = {"buy", "click", "page", "place", "position", "price_paid", "rating", "seconds"}
    assert {column.name for column in columns(EVERY_KIND)} - needless == {
        column.name for column in serving_columns(EVERY_KIND)
    }


def test_a_feature_made_of_two_columns_has_none_of_its_own() -> None:
    assert EVERY_KIND.column_of("hour") == "time"
    for name in ("user_item", "age", "bought_before"):
        with pytest.raises(ValueError, match=place_and_value(f"features.{name}", "column")):
            EVERY_KIND.column_of(name)


def test_a_column_read_twice_is_listed_once_and_required_if_one_reader_requires_it(tmp_path: Path) -> None:
    twin = {"kind": "id", "column": "user_id", "type": "string", "table": "tags", "missing": "none"}
    for name in ("a_twin", "z_twin"):
        found = [column for column in columns(loaded(tmp_path, {f"features.{name}": twin})) if column.name == "user_id"]
        assert found == [Column(name="user_id", type="string", is_required=True, is_id=True)]


def test_integers_stay_integers(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"features.hour": {"kind": "numeric", "type": "int"}})
    assert Column(name="hour", type="int") in columns(spec)


def test_a_number_that_is_also_an_id_is_an_id(tmp_path: Path) -> None:
    both = {"hour": {"kind": "numeric", "type": "int"}, "which_hour": {"kind": "id", "type": "int", "table": "hours"}}
    both["which_hour"]["column"] = "hour"
    changes = {f"features.{name}": feature for name, feature in both.items()} | {"tables.hours": {"dim": 2}}
    assert Column(name="hour", type="int", is_id=True) in columns(loaded(tmp_path, changes))


def test_a_key_is_carried_though_no_feature_reads_it(tmp_path: Path) -> None:
    keys = {"session": {"column": "session_id", "type": "int"}}
    spec = loaded(tmp_path, {"keys": keys, "evaluation.group": {"by": "session"}})
    assert Column(name="session_id", type="int", is_required=False, is_id=True) in columns(spec)
    assert spec.column_of("session") == "session_id"


def test_columns_depend_on_the_inputs_alone(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    assert columns(spec.inputs()) == columns(spec)


def test_the_longest_end_of_a_list_that_is_read_is_known(tmp_path: Path) -> None:
    def sequence(keep: str, length: int) -> dict[str, Any]:
        declared = {"kind": "sequence", "column": "recent", "type": "string", "table": "tags", "max_length": length}
        return declared | {"keep": keep}

    changes = {f"features.{keep}_{length}": sequence(keep, length) for keep in ("first", "last") for length in (3, 4)}
    [recent] = [column for column in columns(loaded(tmp_path, changes)) if column.name == "recent"]
    assert recent.last_values == 4

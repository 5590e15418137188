"""The columns that a spec reads from the logs."""

from pathlib import Path

from schemas.columns import Column, columns
from tests.schemas.specs import loaded


def test_each_kind_of_feature_and_task_has_its_column(tmp_path: Path) -> None:
    assert columns(loaded(tmp_path)) == [
        Column(name="age", type="float", is_required=False),
        Column(name="friend", type="string", is_required=False, is_id=True),
        Column(name="like", type="int", is_label=True, is_binary=True),
        Column(name="rating", type="float", is_label=True),
        Column(name="recent", type="string", is_list=True, is_required=False, is_id=True),
        Column(name="tags", type="string", is_list=True, is_required=False, is_id=True),
        Column(name="user_id", type="string", is_id=True),
    ]


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

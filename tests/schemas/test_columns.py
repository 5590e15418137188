"""The columns that a spec reads from the logs."""

from pathlib import Path

from schemas.columns import Column, columns
from tests.schemas.specs import loaded


def test_each_kind_of_feature_and_task_has_its_column(tmp_path: Path) -> None:
    assert columns(loaded(tmp_path)) == [
        Column(name="age", type="float", is_required=False),
        Column(name="friend", type="string", is_required=False),
        Column(name="like", type="int", is_label=True, is_binary=True),
        Column(name="rating", type="float", is_label=True),
        Column(name="recent", type="string", is_list=True, is_required=False),
        Column(name="tags", type="string", is_list=True, is_required=False),
        Column(name="user_id", type="string"),
    ]


def test_a_column_read_twice_is_listed_once_and_required_if_one_reader_requires_it(tmp_path: Path) -> None:
    twin = {"kind": "id", "column": "user_id", "type": "string", "table": "tags", "missing": "none"}
    for name in ("a_twin", "z_twin"):
        found = [column for column in columns(loaded(tmp_path, {f"features.{name}": twin})) if column.name == "user_id"]
        assert found == [Column(name="user_id", type="string", is_required=True)]


def test_integers_stay_integers(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"features.hour": {"kind": "numeric", "type": "int"}})
    assert Column(name="hour", type="int") in columns(spec)


def test_columns_depend_on_the_inputs_alone(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    assert columns(spec.inputs()) == columns(spec)

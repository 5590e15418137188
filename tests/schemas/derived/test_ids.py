"""Tables of ids, and what is known of their ids from the spec."""

import pytest

from sangam.schemas.derived.ids import declared_ids, id_columns, type_of_ids
from sangam.schemas.spec import Inputs

INPUTS = Inputs.model_validate(
    {
        "features": {
            "user": {"kind": "id", "type": "string", "table": "users", "missing": "nobody"},
            "post": {"kind": "id", "type": "int", "table": "posts", "column": "item"},
            "seen": {"kind": "sequence", "type": "int", "table": "posts", "max_length": 3},
            "words": {"kind": "ids", "type": "string", "table": "words", "combiner": "sum"},
            "number": {"kind": "id", "type": "int", "table": "words"},
            "place": {"kind": "id", "type": "int", "table": "places", "at_serving": 1},
            "pair": {"kind": "cross", "columns": {"a": "int", "b": "int"}, "table": "pairs"},
            "hour": {"kind": "time", "part": "hour", "table": "hours"},
        },
        "tasks": {"like": {"kind": "binary"}},
    }
)


def test_columns_of_ids_are_known_by_table() -> None:
    assert id_columns(INPUTS) == {
        "posts": {"item": "int", "seen": "int"},
        "users": {"user": "string"},
        "words": {"words": "string", "number": "int"},
    }


@pytest.mark.parametrize(("table", "expected"), [("posts", "int"), ("users", "string"), ("words", "string")])
def test_a_table_of_texts_and_integers_has_texts(table: str, expected: str) -> None:
    assert type_of_ids(id_columns(INPUTS)[table]) == expected


def test_the_spec_declares_ids() -> None:
    assert [declared_ids(INPUTS, table) for table in ("users", "places", "posts")] == [["nobody"], ["1"], []]

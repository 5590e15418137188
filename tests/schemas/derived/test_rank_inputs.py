"""Names of the inputs of a served model."""

import pytest

from sangam.schemas.derived.rank_inputs import clashes, input_names
from sangam.schemas.parts.columns import Column


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("user_id", "user_id"),
        ("post-id", "post_id"),
        ("a.b", "a_b"),
        ("User ID", "User_ID"),
        ("année", "ann_e"),
        ("_x", "x__x"),
        ("-x", "x__x"),
        ("7days", "x_7days"),
        ("class", "x_class"),
    ],
)
def test_a_column_names_its_input_as_far_as_tensorflow_and_python_allow(column: str, name: str) -> None:
    assert input_names([Column(column, "int")]) == {column: name}


def test_columns_that_need_the_same_input_are_found() -> None:
    tags = Column("tags", "string", is_list=True)
    assert clashes([tags, Column("tag", "int"), Column("a b", "int")]) == []
    assert clashes([tags, Column("tags_length", "int")]) == [("tags", "tags_length", "tags_length")]
    assert clashes([Column("a b", "int"), Column("a_b", "int")]) == [("a b", "a_b", "a_b")]

"""Values of DataFrames as the model reads them."""

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sangam.pipelines.api.requests import Input, columns_of, inputs_of_signature, is_missing, request_of
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import ColumnType
from tests.errors import place_and_value

NONE = -(2**63)


def sent(kind: ColumnType, *values: Any, is_list: bool = False) -> list[Any]:
    return request_of({"x": Input(kind, is_list)}, {"x": "column"}, {"column": values})["x"]


@pytest.mark.parametrize("value", [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT")], ids=repr)
def test_every_missing_value_is_the_models(value: Any) -> None:
    assert is_missing(value)
    assert sent("string", value) == [""]
    assert sent("int", value) == [NONE]
    assert math.isnan(sent("float", value)[0])
    assert sent("int", value, [1, value], is_list=True) == [[NONE, NONE], [1, NONE]]


@pytest.mark.parametrize("value", ["", 0, False, [], np.array([1, 2])], ids=repr)
def test_others_are_values(value: Any) -> None:
    assert not is_missing(value)


def test_numbers_of_all_kinds_are_read() -> None:
    utc = pd.Timestamp("2024-05-01T00:00:01.75", tz="UTC")
    east = datetime.datetime(2024, 5, 1, 2, 0, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    whole = sent("int", 3, 3.0, True, np.uint8(3), np.bool_(True), 2**60 + 1, utc, east)
    assert whole == [3, 3, 1, 3, 1, 2**60 + 1, 1714521601, 1714521601]
    assert all(type(value) is int for value in whole)
    assert sent("float", 3, 0.5, np.float32(0.5), True, utc) == [3.0, 0.5, 0.5, 1.0, 1714521601.0]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 7),
        ("string", b"a"),
        ("int", "7"),
        ("int", 0.5),
        ("int", math.inf),
        ("int", 2.0**60),
        ("int", pd.Timestamp("2024-05-01")),
        ("float", "0.5"),
        ("float", [0.5]),
    ],
)
def test_another_type_is_refused_with_the_column_and_the_value(kind: ColumnType, value: Any) -> None:
    with pytest.raises(UserError, match=place_and_value("column column", f"(got {value!r})")):
        sent(kind, value)


def test_lists_are_padded_and_their_lengths_are_sent() -> None:
    rows = {"tags": [["a", "b"], np.array(["c"], dtype=object), (), None]}
    assert request_of({"tags": Input("string", True)}, {"tags": "tags"}, rows) == {
        "tags": [["a", "b"], ["c", ""], ["", ""], ["", ""]],
        "tags_length": [2, 1, 0, 0],
    }
    with pytest.raises(UserError, match=place_and_value("column column", "(got 'a|b')")):
        sent("string", "a|b", is_list=True)


def test_columns_are_found_by_the_names_of_the_logs() -> None:
    assert columns_of(["user_id", "x_2nd", "class_"], ["user.id", "2nd", "class_", "label"]) == {
        "user_id": "user.id",
        "x_2nd": "2nd",
        "class_": "class_",
    }
    with pytest.raises(UserError, match=place_and_value("columns", "(got b, c)")):
        columns_of(["a", "b"], ["b", "c"])
    with pytest.raises(UserError, match=place_and_value("columns", "(got a.b, a-b)")):
        columns_of(["a_b"], ["a.b", "a-b"])


def test_a_servers_description_is_read() -> None:
    def told(dtype: str, rank: int) -> dict[str, Any]:
        return {"dtype": dtype, "tensor_shape": {"dim": [{"size": "-1"}] * rank}}

    inputs = {"tags": told("DT_STRING", 2), "tags_length": told("DT_INT64", 1), "run_length": told("DT_FLOAT", 1)}
    assert inputs_of_signature(inputs) == {"tags": Input("string", True), "run_length": Input("float", False)}
    with pytest.raises(UserError, match=place_and_value("model", "(got DT_VARIANT)")):
        inputs_of_signature({"a": told("DT_VARIANT", 1)})

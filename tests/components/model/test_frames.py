"""Integers, times and fields of structs of a frame, as the columns of a model."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sangam.components.model.frames import rows_of
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.forms import CodesForm, TimeForm
from tests.errors import place_and_value

NUMBER = Column("number", "int", is_required=False)
NUMBERS = Column("numbers", "int", is_list=True, is_required=False)
AT = Column("at", "int", is_required=False, time="event")


def _read(data: Any, column: Column, **forms: Any) -> list[Any]:
    return [row for batch in rows_of(data, [column], forms, 2) for row in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1.0, np.nan, 3.0]),
        pd.Series([1, None, 3], dtype="Int8"),
        pd.Series([1, None, 3], dtype=object),
        pd.Series([1.0, None, 3.0]).astype("category"),
        pa.chunked_array([pa.array([1.0]), pa.array([None, 3.0])]),
    ],
)
def test_whole_floats_are_integers(values: Any) -> None:
    data = pd.DataFrame({"number": values}) if isinstance(values, pd.Series) else pa.table({"number": values})
    assert _read(data, NUMBER) == [[1], None, [3]]


def test_floats_that_are_no_integers_or_have_lost_digits_are_refused() -> None:
    for wrong in (1.5, 2.0**53 + 2):
        with pytest.raises(UserError, match=place_and_value("data: column 'number'", f"(got {wrong:g})")):
            _read(pd.DataFrame({"number": [1.0, wrong]}), NUMBER)


def test_lists_of_floats_are_lists_of_integers() -> None:
    lists = [np.array([1.0, 2.0]), None, [], [3.0, None]]
    expected: list[Any] = [[1, 2], [], [], [3]]
    assert _read(pd.DataFrame({"numbers": lists}), NUMBERS) == expected
    assert _read(pa.table({"numbers": pa.array(lists, pa.large_list(pa.float64()))}), NUMBERS) == expected
    fixed = pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))
    assert _read(pa.table({"numbers": fixed}), NUMBERS) == [[1, 2], []]


def test_a_time_with_a_zone_is_seconds_since_1970() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    times = [datetime.datetime(1970, 1, 1, 2, 0, 7, 900_000, zone), None]
    assert _read(pd.DataFrame({"at": pd.to_datetime(times, utc=True)}), AT) == [[7], None]
    with pytest.raises(UserError, match=place_and_value("data: column 'at'", "(got timestamp[ns])")):
        _read(pd.DataFrame({"at": pd.to_datetime(["1970-01-01"])}), AT)


def test_forms_of_the_spec_are_read() -> None:
    form = TimeForm(kind="time", zone="UTC")
    assert _read(pd.DataFrame({"at": pd.to_datetime(["1970-01-02"])}), AT, at=form) == [[86400]]
    codes = CodesForm(kind="codes", values={"yes": 1, "no": 0})
    assert _read(pd.DataFrame({"number": ["no", None, "yes"]}), NUMBER, number=codes) == [[0], None, [1]]
    with pytest.raises(UserError, match=place_and_value("data: column 'number'", "(got 'maybe')")):
        _read(pd.DataFrame({"number": ["maybe"]}), NUMBER, number=codes)


def test_fields_of_structs_are_columns() -> None:
    data = pd.DataFrame({"item": [{"number": 1}, None, {"number": 2}]})
    assert _read(data, Column("item.number", "int", is_required=False)) == [[1], None, [2]]
    with pytest.raises(UserError, match=place_and_value("data: column 'item.size'", "(got a column 'item'")):
        _read(data, Column("item.size", "int", is_required=False))

"""A loaded model gives the scores that the server gives, for rows of any type that can be read in one way."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sangam.components.model.model import Model, load
from sangam.components.server import json_values
from sangam.components.server.model import LoadedModel
from sangam.schemas.errors import UserError
from tests.components.model.committed import FOLDER, LIKE, WITHIN, frame
from tests.errors import place_and_value

pytestmark = pytest.mark.slow

Change = Callable[[pd.DataFrame], Any]


def test_a_frame_gets_the_committed_scores_with_its_index(model: Model) -> None:
    rows = frame().set_index(pd.Index(range(100, 112)))
    scores = model.score(rows)
    assert list(scores.columns) == list(model.tasks) == ["like"]
    assert list(scores.index) == list(rows.index)
    assert scores["like"].dtype == np.float32
    np.testing.assert_allclose(scores["like"], LIKE, rtol=0, atol=WITHIN)


def test_a_table_gives_a_table(model: Model) -> None:
    scores = model.score(pa.Table.from_pandas(frame()))
    assert scores.schema == pa.schema({"like": pa.float32()})
    np.testing.assert_allclose(scores["like"], LIKE, rtol=0, atol=WITHIN)


def test_scores_are_those_of_the_servers_rest_interface() -> None:
    rows = frame()
    served = LoadedModel(FOLDER, 1)
    width = max(map(len, rows["tags"]))
    signature = served.signature("rank")
    body = {
        "user": rows["user"].tolist(),
        "age": [float("nan") if pd.isna(age) else age for age in rows["age"]],
        "tags": [[*tags, *[""] * (width - len(tags))] for tags in rows["tags"]],
        "tags_length": [len(tags) for tags in rows["tags"]],
    }
    answers = json_values.rows(served.run(signature, json_values.read_request(signature, {"inputs": body})))
    np.testing.assert_array_equal(load(FOLDER).score(rows)["like"], np.array(answers, np.float32)[:, 0])


def _arrow(**types: pa.DataType) -> Change:
    def change(rows: pd.DataFrame) -> pa.Table:
        table = pa.Table.from_pandas(rows)
        fields = [field.with_type(types.get(field.name, field.type)) for field in table.schema]
        return table.cast(pa.schema(fields))

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.assign(user=rows["user"].astype("category"), age=rows["age"].astype("Float64")),
        lambda rows: rows.assign(user=rows["user"].astype("string"), age=rows["age"].astype("Int64")),
        lambda rows: rows.assign(tags=rows["tags"].map(np.array), age=rows["age"].astype(object)),
        lambda rows: rows.assign(tags=rows["tags"].map(tuple), age=pd.arrays.SparseArray(rows["age"])),
        lambda rows: rows.assign(tags=rows["tags"].map(lambda tags: tags or None), age=rows["age"].fillna(np.inf)),
        lambda rows: rows.assign(age=[None if pd.isna(age) else Decimal(int(age)) for age in rows["age"]], more=1),
        lambda rows: pa.Table.from_pandas(rows).set_column(
            0, "user", pa.array(rows["user"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_string()))
        ),
        _arrow(user=pa.large_string(), tags=pa.large_list(pa.large_string()), age=pa.decimal128(9, 2)),
        _arrow(user=pa.binary(), tags=pa.list_(pa.binary()), age=pa.float32()),
        _arrow(age=pa.int8()),
    ],
)
def test_other_types_of_the_same_values_give_the_same_scores(model: Model, change: Change) -> None:
    scores = model.score(change(frame()))
    np.testing.assert_allclose(np.asarray(scores["like"]), LIKE, rtol=0, atol=WITHIN)


@pytest.mark.parametrize("batch_size", [1, 5, 12])
def test_batches_of_any_size_give_the_same_scores(model: Model, batch_size: int) -> None:
    scores = model.score(frame(), batch_size=batch_size)["like"]
    np.testing.assert_allclose(scores, LIKE, rtol=0, atol=WITHIN)


def test_no_rows_have_no_scores(model: Model) -> None:
    assert model.score(frame().head(0)).shape == (0, 1)


@pytest.mark.parametrize(
    ("change", "place", "value"),
    [
        (lambda rows: rows.drop(columns="age"), "data: column 'age'", "(got tags, user)"),
        (lambda rows: rows.assign(age="old"), "data: column 'age'", "(got string)"),
        (lambda rows: rows.assign(user=1.5), "data: column 'user'", "(got double)"),
        (lambda rows: rows.assign(tags="t1"), "data: column 'tags'", "(got string) ... list"),
        (lambda rows: rows.assign(user=["a", 1] * 6), "data: column 'user'", "(got int, str)"),
        (lambda rows: pd.concat([rows, rows["age"]], axis=1), "data: column 'age'", "(got 2"),
        (lambda rows: rows.to_dict(), "data", "dict; ... DataFrame"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(model: Model, change: Change, place: str, value: str) -> None:
    with pytest.raises(UserError, match=place_and_value(place, value)):
        model.score(change(frame()))


def test_a_batch_has_rows(model: Model) -> None:
    with pytest.raises(UserError, match=place_and_value("batch_size", "(got 0)")):
        model.score(frame(), batch_size=0)


def test_a_model_tells_what_it_reads(model: Model) -> None:
    told = {column.name: (column.type, column.missing) for column in model.columns}
    assert told == {
        "age": ("float", {"age": "counts as 40"}),
        "tags": ("list of string", {"tags": "counts as an empty list: zeros"}),
        "user": ("string", {"user": "counts as no id: zeros; training refuses such rows"}),
    }
    assert (model.name, model.version, model.metrics) == ("tiny", "", {})
    assert "tiny" in model._repr_html_()

"""TensorFlow Serving's own log: every form of a request becomes the rows that the server saw."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow_serving.apis import prediction_log_pb2

from sangam.components.logs.readers import formats
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from tests.components.logs.readers.sample_prediction_logs import LOGS, example, of_examples, ranked, rows_of, write
from tests.errors import tells

pytestmark = pytest.mark.slow

USER, PRICE, TAGS = Column("user", "string"), Column("price", "float"), Column("tags", "int", is_list=True)
COLUMNS = [USER, PRICE, TAGS]
OWN = [Column("served_at", "int"), Column("served_version", "int"), Column("served_score_like", "float")]
INPUTS = {
    "user": [b"u"],
    "price": np.array([[0.5], [2.0]]),
    "tags": np.array([[3, 4], [5, 0]]),
    "tags_length": np.array([2, 1]),
}
ROWS = [{"user": b"u", "price": 0.5, "tags": [3, 4]}, {"user": b"u", "price": 2.0, "tags": [5]}]
EXAMPLES = [example(user=b"u", price=0.5, tags=[3, 4]), example(user=b"u", price=2.0, tags=[5])]


@pytest.mark.parametrize("name", ["log", "log.gz"])
def test_tensors_and_examples_with_and_without_context_are_the_same_rows(tmp_path: Path, name: str) -> None:
    context = example(user=b"u")
    without = [example(price=0.5, tags=[3, 4]), example(price=2.0, tags=[5])]
    records = [
        ranked(INPUTS, {"like": [[0.25], [0.75]]}),
        ranked({"examples": [each.SerializeToString() for each in EXAMPLES]}, {"like": [0.25, 0.75]}),
        of_examples(EXAMPLES),
        of_examples(without, context),
    ]
    found, num_unreadable = rows_of(write(tmp_path / name, records), [*COLUMNS, *OWN])
    told = [{"served_at": 5, "served_version": 7, "served_score_like": score} for score in (0.25, 0.75)]
    untold = dict.fromkeys(told[0])
    owns = [*told, *told, untold, untold, untold, untold]
    assert found == [row | own for row, own in zip(ROWS * 4, owns, strict=True)]
    assert num_unreadable == 0


def test_types_of_tensors_become_those_of_columns_and_a_repeated_value_is_filled_in(tmp_path: Path) -> None:
    log = prediction_log_pb2.PredictionLog.FromString(
        ranked({"user": [b"u", b"v"], "price": np.array([1, 2], np.int32), "tags": np.array([[True], [False]])})
    )
    del log.predict_log.request.inputs["user"].string_val[1]
    found, _ = rows_of(write(tmp_path / "log", [log.SerializeToString()]), COLUMNS)
    assert found == [{"user": b"u", "price": 1.0, "tags": [1]}, {"user": b"u", "price": 2.0, "tags": [0]}]


def test_records_without_rows_are_counted_and_a_column_that_none_has_is_told(tmp_path: Path) -> None:
    session = prediction_log_pb2.PredictionLog()
    session.session_run_log.request.feed.add().name = "x:0"
    no_input = prediction_log_pb2.PredictionLog()
    no_input.regress_log.request.model_spec.name = "feed"
    records = [session.SerializeToString(), no_input.SerializeToString(), b"\xff\xff", ranked(INPUTS)]
    path = write(tmp_path / "log", records)
    found, num_unreadable = rows_of(path, [USER])
    assert (found, num_unreadable) == ([{"user": b"u"}] * 2, 3)
    with path.open("rb") as file:
        [rows] = formats.read(LOGS, file, str(path), [USER, Column("session", "string")])
    assert (rows.absent, rows.unread) == ({"session"}, {"price", "tags", "tags_length"})


@pytest.mark.parametrize(
    ("inputs", "place", "value"),
    [
        (INPUTS | {"price": np.zeros(3, np.float32)}, "input 'tags'", "each of 3 (got shape [2, 2])"),
        (INPUTS | {"tags_length": np.array([1])}, "input 'tags'", "got 1 for 2"),
        (INPUTS | {"price": np.zeros(2, np.complex64)}, "input 'price'", "got DataType 8"),
    ],
    ids=["neither one row nor all", "lengths", "type"],
)
def test_a_request_that_is_wrong_is_told_with_its_record(
    tmp_path: Path, inputs: dict[str, Any], place: str, value: str
) -> None:
    path = write(tmp_path / "log", [ranked(INPUTS), ranked(inputs)])
    with pytest.raises(UserError) as caught:
        rows_of(path, COLUMNS)
    assert tells(str(caught.value), f"{path}: record 2: {place}", value), str(caught.value)


def test_a_tensor_whose_bytes_or_values_do_not_fit_its_shape_is_refused(tmp_path: Path) -> None:
    for size, value in ((5, "got 16 bytes for [5]"), (2**40, f"got shape [{2**40}]")):
        log = prediction_log_pb2.PredictionLog.FromString(ranked({"price": np.zeros(2)}))
        log.predict_log.request.inputs["price"].tensor_shape.dim[0].size = size
        with pytest.raises(UserError) as caught:
            rows_of(write(tmp_path / "log", [log.SerializeToString()]), [PRICE])
        assert tells(str(caught.value), "record 1", value), str(caught.value)


def test_two_types_of_a_column_and_another_file_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log", [ranked({"tags": np.array([[1]])}), ranked({"tags": np.array([[1.5]])})])
    with pytest.raises(UserError) as caught:
        rows_of(path, [TAGS])
    assert tells(str(caught.value), f"{path}: column 'tags'", "got int64 in some records, float in others")
    other = write(tmp_path / "examples", [EXAMPLES[0].SerializeToString()])
    with other.open("rb") as file:
        [problem] = formats.inspect(LOGS, file, str(other), COLUMNS).problems
    assert tells(problem, str(other), "record 1 is no PredictionLog")
    content = path.read_bytes()
    for damaged in (content[:-1], content[:40] + b"\x00" + content[41:]):
        path.write_bytes(damaged)
        with pytest.raises(UserError):
            rows_of(path, [TAGS])

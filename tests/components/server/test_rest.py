"""What is particular to the REST interface."""

import gzip
from typing import Any

import httpx
import pytest

from tests.components.server.sample_models import NAME
from tests.components.server.server_process import TIMEOUT_S, Running, b64
from tests.errors import tells

pytestmark = pytest.mark.slow

ROW = {"user": "u1", "post": "p0", "price": 0.5, "topics": [1, 2], "topics_length": 1}
COLUMNS = {"user": ["u1"], "post": ["p0", "p10"], "price": [0.5], "topics": [[1, 2]], "topics_length": [1]}
MODEL = f"/v1/models/{NAME}"


def test_rows_are_answered_by_rows(server: Running) -> None:
    answer = server.post({"signature_name": "rank", "instances": [ROW, {**ROW, "post": "p10"}]})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "predictions": [{"like": [4.5], "watch": [2.0]}, {"like": [5.5], "watch": [2.0]}],
    }


def test_columns_are_answered_by_columns_and_one_row_stands_for_all(server: Running) -> None:
    answer = server.post({"signature_name": "rank", "inputs": COLUMNS})
    assert answer.json() == {"outputs": {"like": [[4.5], [5.5]], "watch": [[2.0], [2.0]]}}


def test_the_only_input_and_output_need_no_names(server: Running) -> None:
    by_rows = server.post({"signature_name": "slow", "instances": [0.0, 0]})
    assert by_rows.json() == {"predictions": [[1.0], [1.0]]}
    by_columns = server.post({"signature_name": "slow", "inputs": [0.0]})
    assert by_columns.json() == {"outputs": [[1.0]]}


def test_no_rows_give_no_predictions(server: Running) -> None:
    assert server.post({"instances": []}).json() == {"predictions": []}
    assert server.post({"signature_name": "rank", "instances": []}).json() == {"predictions": []}
    nothing = {**COLUMNS, "post": []}
    assert server.post({"signature_name": "rank", "inputs": nothing}).json() == {"outputs": {"like": [], "watch": []}}


def test_not_a_number_is_written_as_tensorflow_serving_does(server: Running) -> None:
    body = b'{"signature_name": "rank", "inputs": ' + str({**COLUMNS, "price": ["X"]}).replace("'", '"').encode() + b"}"
    answer = server.post(body.replace(b'"X"', b"NaN"))
    assert answer.text == '{"outputs": {"like": [[NaN], [NaN]], "watch": [[NaN], [NaN]]}}\n'


@pytest.mark.parametrize(
    ("body", "place", "value"),
    [
        (b"{", "body", "not JSON"),
        (b"[" * 100_000, "body", "not JSON"),
        (b"\xff\xfe", "body", "not JSON"),
        ([1], "body", "instances or inputs (got list)"),
        ({"instances": [], "inputs": {}}, "body", "instances or inputs"),
        ({"signature_name": 3, "instances": []}, "signature_name", "(got 3)"),
        ({"instances": {"a": 1}}, "instances", "(got dict)"),
        ({"instances": ["text"], "signature_name": "rank"}, "instances", "(got bare values)"),
        ({"instances": [{"examples": {"b64": "!"}}]}, "inputs.examples", "not Base64"),
        ({"instances": [{"examples": {"b64": 3}}]}, "inputs.examples", "(got dict)"),
        ({"instances": [{"examples": None}]}, "inputs.examples", "(got NoneType)"),
        (
            {"instances": [ROW, {"user": "u1"}], "signature_name": "rank"},
            "instances.1",
            "instances.0",
        ),
        (
            {"inputs": {**COLUMNS, "topics_length": [1.5]}, "signature_name": "rank"},
            "inputs.topics_length",
            "wrong type",
        ),
        (
            {"inputs": {**COLUMNS, "topics_length": [2**63]}, "signature_name": "rank"},
            "inputs.topics_length",
            "(got 9223372036854775808) ... -9223372036854775808",
        ),
        (
            {"inputs": {**COLUMNS, "topics_length": [1, 2**63, -1]}, "signature_name": "rank"},
            "inputs.topics_length",
            "(got 9223372036854775808)",
        ),
        (
            {"inputs": {**COLUMNS, "topics_length": [2**70]}, "signature_name": "rank"},
            "inputs.topics_length",
            f"(got {2**70})",
        ),
        ({"inputs": {**COLUMNS, "price": ["1"]}, "signature_name": "rank"}, "inputs.price", "(got string)"),
        ({"inputs": {**COLUMNS, "price": [None]}, "signature_name": "rank"}, "inputs.price", "(got null"),
        ({"inputs": {**COLUMNS, "topics": [[1], [1, 2]]}, "signature_name": "rank"}, "inputs.topics", "not a tensor"),
    ],
)
def test_wrong_bodies_are_refused_by_name(server: Running, body: Any, place: str, value: str) -> None:
    answer = server.post(body)
    assert answer.status_code == 400
    assert tells(answer.json()["error"], place, value)


def test_a_compressed_body_is_read(server: Running) -> None:
    body = gzip.compress(b'{"instances": []}')
    answer = httpx.post(
        f"{server.rest}{MODEL}:predict", content=body, headers={"Content-Encoding": "gzip"}, timeout=TIMEOUT_S
    )
    assert answer.json() == {"predictions": []}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
@pytest.mark.parametrize(
    "body",
    [b'{"instances": []}', gzip.compress(b'{"instances": []}', mtime=0)[:-9] + b"x" * 9],
    ids=["plain", "damaged"],
)
def test_a_body_that_is_not_compressed_as_it_says_is_the_clients_mistake(
    server: Running, encoding: str, body: bytes
) -> None:
    headers = {"Content-Encoding": encoding}
    answer = httpx.post(f"{server.rest}{MODEL}:predict", content=body, headers=headers, timeout=TIMEOUT_S)
    assert answer.status_code == 400
    assert "Traceback" not in server.log.read_text()


def test_version_in_the_address(server: Running) -> None:
    assert server.post({"instances": []}, f"{MODEL}/versions/1:predict").status_code == 200
    answer = server.post({"instances": []}, f"{MODEL}/versions/2:predict")
    assert answer.status_code == 404
    assert tells(answer.json()["error"], "version", "(got 2) ... feed")


def test_status_and_metadata(server: Running) -> None:
    status = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for path in (MODEL, f"{MODEL}/versions/1"):
        assert server.get(path).json() == {"model_version_status": [status]}
    found = server.get(f"{MODEL}/metadata").json()
    assert found["model_spec"] == {"name": "feed", "signature_name": "", "version": "1"}
    signature = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["examples"]["dtype"] == "DT_STRING"
    assert signature["method_name"] == "tensorflow/serving/predict"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models/other", 404),
        ("POST", "/v1/models/other:predict", 404),
        ("GET", "/v1/models/other/metadata", 404),
        ("GET", f"{MODEL}/versions/9", 404),
        ("GET", "/nothing", 404),
        ("GET", f"{MODEL}:predict", 405),
        ("POST", f"{MODEL}:classify", 501),
        ("POST", f"{MODEL}/versions/1:regress", 501),
    ],
)
def test_errors_are_json_with_the_codes_of_tensorflow_serving(
    server: Running, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, server.rest + path, content=b'{"instances": []}', timeout=TIMEOUT_S)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


def test_bytes_that_are_no_text_come_back_in_base64(server: Running) -> None:
    instance = {"examples": b64(b"\xff")}
    assert "Could not parse example" in server.post({"instances": [instance]}).json()["error"]

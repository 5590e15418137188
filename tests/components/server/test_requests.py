"""What a server answers over gRPC, and over REST what the other says too."""

from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from tests.components.server.sample_models import NAME, candidates, scores
from tests.components.server.server_process import Running, b64, refusal
from tests.errors import tells

pytestmark = pytest.mark.slow

EXAMPLE = tf.train.Example()
EXAMPLE.features.feature["post"].bytes_list.value.append(b"four")
EXAMPLE.features.feature["price"].float_list.value.append(0.5)
EXAMPLE_BYTES = EXAMPLE.SerializeToString()


def test_one_user_with_many_candidates_is_one_request(server: Running) -> None:
    found = server.client.predict("rank", candidates(200), 60)
    np.testing.assert_array_equal(found["like"], scores(1, 200))
    np.testing.assert_array_equal(found["watch"], np.full([200, 1], 2.0, np.float32))


def test_serialized_examples_are_scored(server: Running) -> None:
    found = server.client.predict("", {"examples": np.array([EXAMPLE_BYTES, b""], dtype=object)}, 60)
    np.testing.assert_array_equal(found["like"], [[5.5], [1.0]])


def test_the_answer_names_model_version_and_signature(server: Running) -> None:
    spec = server.client.send(server.client.request("rank", candidates(1)), 60).model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == (NAME, 1, "rank")


def test_output_filter_leaves_out_the_others(server: Running) -> None:
    request = server.client.request("rank", candidates(2))
    request.output_filter.append("watch")
    assert list(server.client.send(request, 60).outputs) == ["watch"]
    request.output_filter.append("buy")
    code, text = refusal(lambda: server.client.send(request, 60))
    assert code == "INVALID_ARGUMENT"
    assert tells(text, "output_filter", "buy unknown ... like, watch")


@pytest.mark.parametrize("signature", ["serving_default", "rank"])
def test_no_rows_give_no_scores(server: Running, signature: str) -> None:
    nothing = np.array([], dtype=object)
    inputs = {"examples": nothing} if signature == "serving_default" else {**candidates(1), "post": nothing}
    found = server.client.predict(signature, inputs, 60)
    assert {name: array.shape for name, array in found.items()} == {"like": (0, 1), "watch": (0, 1)}


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("missing", {"user": None}, "inputs", "user missing (got post, price, topics, topics_length)"),
    ("unknown", {"color": np.zeros(1)}, "inputs", "color unknown (got color, post, "),
    ("type", {"price": np.zeros(1, np.float64)}, "inputs.price", "type (got float64) ... float32"),
    ("string", {"post": np.zeros(3, np.int64)}, "inputs.post", "type (got int64) ... string"),
    ("rank", {"price": np.zeros([3, 1], np.float32)}, "inputs.price", "shape (got [3, 1]) ... [any]"),
    ("scalar", {"price": np.float32(1)}, "inputs.price", "shape (got []) ... [any]"),
    (
        "rows",
        {"user": np.array(["a", "b"])},
        "inputs",
        "rows ... (got post: 3, user: 2)",
    ),
]


@pytest.mark.parametrize(("changes", "place", "value"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_input_is_named_with_what_is_allowed(
    server: Running, changes: dict[str, Any], place: str, value: str
) -> None:
    inputs = {name: array for name, array in {**candidates(3), **changes}.items() if array is not None}
    code, said = refusal(lambda: server.client.predict("rank", inputs, 60))
    assert code == "INVALID_ARGUMENT"
    assert tells(said, place, value)


@pytest.mark.parametrize(
    ("changes", "place", "value"), [case[1:] for case in WRONG if case[0] not in ("type", "scalar")]
)
def test_rest_names_the_same_input(server: Running, changes: dict[str, Any], place: str, value: str) -> None:
    inputs = {
        name: np.asarray(array).tolist() for name, array in {**candidates(3), **changes}.items() if array is not None
    }
    answer = server.post({"signature_name": "rank", "inputs": inputs})
    assert answer.status_code == 400
    # JSON has no types of 32 and 64 bits, and one list for all of a column's values.
    assert tells(answer.json()["error"], place, value.split("(got")[0].rstrip())


def test_an_example_that_cannot_be_parsed_is_the_clients_mistake(server: Running) -> None:
    code, text = refusal(lambda: server.client.predict("", {"examples": np.array([b"\xff\xfe"], dtype=object)}, 60))
    assert code == "INVALID_ARGUMENT"
    assert tells(text, "inputs", "Could not parse example")


def test_not_a_number_is_answered_and_harms_nobody(server: Running) -> None:
    found = server.client.predict("rank", {**candidates(2), "price": np.array([np.nan], np.float32)}, 60)
    assert np.isnan(found["like"]).all()
    np.testing.assert_array_equal(server.client.predict("rank", candidates(2), 60)["like"], scores(1, 2))


def test_unknown_model_version_and_signature(server: Running) -> None:
    request = server.client.request("rank", candidates(1))
    request.model_spec.name = "other"
    code, text = refusal(lambda: server.client.send(request, 60))
    assert code == "NOT_FOUND"
    assert tells(text, "model", "(got 'other') ... feed")
    request.model_spec.name = ""
    assert refusal(lambda: server.client.send(request, 60))[0] == "INVALID_ARGUMENT"
    code, text = refusal(lambda: server.client.predict("rank", candidates(1), 10, version=7))
    assert code == "NOT_FOUND"
    assert tells(text, "version", "(got 7) ... feed")
    code, text = refusal(lambda: server.client.predict("order", candidates(1), 60))
    assert code == "INVALID_ARGUMENT"
    assert tells(text, "signature_name", "(got 'order') ... rank, serving_default, slow, upsert")


def test_the_version_served_may_be_named(server: Running) -> None:
    assert server.client.predict("rank", candidates(1), 10, version=1)["like"] == 3


def test_updates_are_refused_unless_allowed(server: Running) -> None:
    update = {"keys": np.array([1]), "rows": np.array([[9]], np.float32)}
    code, text = refusal(lambda: server.client.predict("upsert", update, 60))
    assert code == "PERMISSION_DENIED"
    assert "--allow-updates" in text
    answer = server.post({"signature_name": "upsert", "inputs": {"keys": [1], "rows": [[9.0]]}})
    assert answer.status_code == 403
    np.testing.assert_array_equal(server.client.predict("rank", candidates(2), 60)["like"], scores(1, 2))


def test_a_message_that_promises_more_than_it_holds_is_refused(server: Running) -> None:
    for shape, values in (([10**11], [1.0]), ([5, 5], [1.0]), ([-1], [1.0]), ([1], []), ([1], [1.0, 2.0])):
        request = server.client.request("rank", candidates(1))
        price = request.inputs["price"]
        price.Clear()
        price.dtype = tf.float32.as_datatype_enum
        price.float_val.extend(values)
        for length in shape:
            price.tensor_shape.dim.add(size=length)
        assert refusal(lambda request=request: server.client.send(request, 60))[0] == "INVALID_ARGUMENT"
    request = server.client.request("rank", candidates(1))
    request.inputs["user"].string_val[0] = b"x" * 1_000_000
    request.inputs["user"].tensor_shape.dim[0].size = 1_000_000
    code, text = refusal(lambda: server.client.send(request, 60))
    assert (code, "too large" in text) == ("INVALID_ARGUMENT", True)


def test_damaged_messages_never_end_the_server(server: Running) -> None:
    random = np.random.default_rng(5)
    whole = server.client.request("rank", candidates(4)).SerializeToString()
    with grpc.insecure_channel(server.grpc) as channel:
        ask = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        codes = set()
        for _ in range(300):
            damaged = bytearray(whole)
            for place in random.integers(0, len(damaged), 4):
                damaged[place] = random.integers(0, 256)
            try:
                ask(bytes(damaged), timeout=10)
            except grpc.RpcError as error:
                codes.add(error.code().name)
    # INTERNAL: no message at all, which gRPC itself says.
    assert codes <= {"INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "PERMISSION_DENIED"}
    assert server.metric("sangam_requests_total", code="INTERNAL") == 0
    np.testing.assert_array_equal(server.client.predict("rank", candidates(2), 60)["like"], scores(1, 2))


def test_metadata_holds_the_signatures(server: Running) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = NAME
    with grpc.insecure_channel(server.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        found = stub.GetModelMetadata(request, timeout=10)
        request.metadata_field[0] = "color"
        assert refusal(lambda: stub.GetModelMetadata(request, timeout=10))[0] == "INVALID_ARGUMENT"
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert found.metadata["signature_def"].Unpack(signatures)
    assert sorted(signatures.signature_def) == ["rank", "serving_default", "slow", "upsert"]
    assert sorted(signatures.signature_def["rank"].inputs) == ["post", "price", "topics", "topics_length", "user"]
    assert found.model_spec.version.value == 1


def test_status_and_what_is_not_offered(server: Running) -> None:
    assert server.client.status() == {1: "AVAILABLE"}
    with grpc.insecure_channel(server.grpc) as channel:
        model = model_service_pb2_grpc.ModelServiceStub(channel)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name, request.model_spec.version.value = NAME, 8
        assert refusal(lambda: model.GetModelStatus(request, timeout=10))[0] == "NOT_FOUND"
        reload = model_management_pb2.ReloadConfigRequest()
        assert refusal(lambda: model.HandleReloadConfigRequest(reload, timeout=10))[0] == "UNIMPLEMENTED"
        prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        code, text = refusal(lambda: prediction.Classify(classification_pb2.ClassificationRequest(), timeout=10))
        assert code == "UNIMPLEMENTED"
        assert tells(text, "Classify", "Predict")


def test_reflection_describes_the_services_to_grpcurl(server: Running) -> None:
    ask = reflection_pb2.ServerReflectionRequest
    wanted = [ask(list_services=""), ask(file_containing_symbol="tensorflow.serving.PredictionService")]
    with grpc.insecure_channel(server.grpc) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        services, files = list(stub.ServerReflectionInfo(iter(wanted), timeout=10))
    names = {service.name for service in services.list_services_response.service}
    assert {"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService", "grpc.health.v1.Health"} <= names
    assert files.file_descriptor_response.file_descriptor_proto


def test_health_and_readiness(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "tensorflow.serving.PredictionService"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert server.get("/healthz").text == "ok\n"
    assert server.served() == "ready feed 1"


def test_metrics_count_requests_by_method_signature_and_code(server: Running) -> None:
    wanted = {"api": "grpc", "method": "Predict", "signature": "rank"}
    before = {code: server.metric("sangam_requests_total", **wanted, code=code) for code in ("OK", "NOT_FOUND")}
    rows = server.metric("sangam_candidates_sum", signature="rank")
    server.client.predict("rank", candidates(7), 60)
    refusal(lambda: server.client.predict("made up by a client", {}, 60))
    assert server.metric("sangam_requests_total", **wanted, code="OK") == before["OK"] + 1
    assert server.metric("sangam_candidates_sum", signature="rank") == rows + 7
    assert server.metric("sangam_request_seconds_count", **wanted) >= before["OK"] + 1
    assert server.metric("sangam_version_served", version="1") == 1
    assert server.metric("sangam_load_seconds") > 0
    assert server.metric("sangam_requests_in_flight") == 0
    assert "made up" not in server.get("/metrics").text


def test_errors_are_logged_in_one_line_and_answers_not_at_all(server: Running) -> None:
    length = len(server.log.read_text().splitlines())
    server.client.predict("rank", candidates(1), 60)
    assert server.post({"instances": []}, "/v1/models/line%0Afeed:predict").status_code == 404
    [line] = server.log.read_text().splitlines()[length:]
    assert "api=rest method=Predict signature= code=NOT_FOUND: model: unknown (got 'line\\nfeed')" in line


def test_bytes_of_examples_are_the_same_over_both_interfaces(server: Running) -> None:
    answer = server.post({"instances": [b64(EXAMPLE_BYTES), {"b64": ""}]})
    found = server.client.predict("", {"examples": np.array([EXAMPLE_BYTES, b""], dtype=object)}, 60)
    assert [row["like"] for row in answer.json()["predictions"]] == found["like"].tolist()

"""The descriptors of TensorFlow Serving's two gRPC services, for reflection.

tensorflow-serving-api 2.16 has them in modules that protobuf 4 cannot import (`prediction_service_pb2`,
`model_service_pb2`); its messages and stubs can be imported. Source: prediction_service.proto and model_service.proto.
"""

from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)

_FOLDER, _PACKAGE = "tensorflow_serving/apis", "tensorflow.serving"


def _service(name: str, file: str, files: Sequence[Any], methods: Sequence[tuple[str, Any, Any]]) -> str:
    """Adds a service to protobuf's default pool, which reflection reads; returns its full name."""
    described = descriptor_pb2.FileDescriptorProto(
        name=f"{_FOLDER}/{file}",
        package=_PACKAGE,
        dependency=[each.DESCRIPTOR.name for each in files],
        syntax="proto3",
        options=descriptor_pb2.FileOptions(cc_enable_arenas=True),
    )
    service = described.service.add(name=name)
    for method, request, answer in methods:
        service.method.add(
            name=method,
            input_type=f".{request.DESCRIPTOR.full_name}",
            output_type=f".{answer.DESCRIPTOR.full_name}",
        )
    descriptor_pool.Default().AddSerializedFile(described.SerializeToString())  # type: ignore[no-untyped-call]
    return f"{_PACKAGE}.{name}"


PREDICTION_SERVICE = _service(
    "PredictionService",
    "prediction_service.proto",
    (classification_pb2, get_model_metadata_pb2, inference_pb2, predict_pb2, regression_pb2),
    (
        ("Classify", classification_pb2.ClassificationRequest, classification_pb2.ClassificationResponse),
        ("Regress", regression_pb2.RegressionRequest, regression_pb2.RegressionResponse),
        ("Predict", predict_pb2.PredictRequest, predict_pb2.PredictResponse),
        ("MultiInference", inference_pb2.MultiInferenceRequest, inference_pb2.MultiInferenceResponse),
        (
            "GetModelMetadata",
            get_model_metadata_pb2.GetModelMetadataRequest,
            get_model_metadata_pb2.GetModelMetadataResponse,
        ),
    ),
)
MODEL_SERVICE = _service(
    "ModelService",
    "model_service.proto",
    (get_model_status_pb2, model_management_pb2),
    (
        ("GetModelStatus", get_model_status_pb2.GetModelStatusRequest, get_model_status_pb2.GetModelStatusResponse),
        (
            "HandleReloadConfigRequest",
            model_management_pb2.ReloadConfigRequest,
            model_management_pb2.ReloadConfigResponse,
        ),
    ),
)
SERVICES = (PREDICTION_SERVICE, MODEL_SERVICE)

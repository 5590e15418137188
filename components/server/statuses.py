"""Messages of TensorFlow Serving on a model: the states of its versions, and its signatures."""

from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from sangam.components.server.model import LoadedModel
from sangam.components.server.predictor import Predictor
from sangam.components.server.request_error import Code, RequestError

Status = get_model_status_pb2.ModelVersionStatus
_OK, _FAILED_PRECONDITION = 0, 9
"""Numbers of tensorflow.error.Code."""


def model_status(predictor: Predictor, name: str, version: int | None) -> get_model_status_pb2.GetModelStatusResponse:
    """Returns the states of all versions, newest first, or of one.

    Raises:
        RequestError: if there is no such model or version.
    """
    predictor.check_name(name)
    states = predictor.versions.states()
    if version is not None and version not in states:
        known = ", ".join(str(number) for number in states) or "none"
        raise RequestError(Code.NOT_FOUND, f"version: unknown (got {version}); model {name} has {known}")
    response = get_model_status_pb2.GetModelStatusResponse()
    for number, state in states.items():
        if version in (None, number):
            status = response.model_version_status.add(version=number, state=Status.State.Value(state.state))
            status.status.error_code = _FAILED_PRECONDITION if state.problem else _OK
            status.status.error_message = state.problem
    return response


def metadata(model: LoadedModel) -> get_model_metadata_pb2.SignatureDefMap:
    """Returns the signatures of a model."""
    signatures = get_model_metadata_pb2.SignatureDefMap()
    for name, signature_def in model.signature_defs().items():
        signatures.signature_def[name].CopyFrom(signature_def)
    return signatures

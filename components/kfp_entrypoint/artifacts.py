"""Converts between the artifacts of an ExecutorInput and TFX's, like TFX's kubeflow_v2_entrypoint_utils."""

from typing import Any

import yaml
from google.protobuf import json_format, struct_pb2
from ml_metadata.proto import metadata_store_pb2
from tfx.components.evaluator import constants
from tfx.types import artifact_utils
from tfx.types.artifact import CUSTOM_PROPERTIES_PREFIX, _decode_struct_value, _encode_struct_value
from tfx.utils import import_utils
from tfx.version import __version__

from sangam.components.kfp_entrypoint.invocation import SYSTEM, Json

_IDS = (constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY, constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY)
"""Properties that hold the id of another artifact."""
_STANDARD = "tfx."
_SYSTEM_CLASSES = "sangam.components.page.artifact"


class Artifacts:
    """The artifacts of one execution. Kubeflow identifies them by name, TFX by number: `read` numbers them."""

    def __init__(self) -> None:
        self._names: list[str] = [""]

    def read(self, by_key: Json) -> dict[str, list[Any]]:
        """Returns the artifacts of `inputs` or `outputs`."""
        return {key: [self._artifact(each) for each in found["artifacts"]] for key, found in by_key.items()}

    def written(self, outputs: dict[str, list[Any]]) -> Json:
        """Returns the outputs in the form of the ExecutorOutput."""
        return {key: {"artifacts": [self._json(artifact_utils.get_single_instance(outputs[key]))]} for key in outputs}

    def _artifact(self, described: Json) -> Any:
        made = artifact_class(described["type"])()
        message = metadata_store_pb2.Artifact(uri=described["uri"])
        if name := described.get("name"):
            message.id = len(self._names)
            self._names.append(name)
        for key, value in _with_floats(described.get("metadata", {})).items():
            _set(message, made.artifact_type.properties, key, value)
        made.set_mlmd_artifact(message)
        return made

    def _json(self, artifact: Any) -> Json:
        version = artifact_utils.ARTIFACT_TFX_VERSION_CUSTOM_PROPERTY_KEY
        # Kubeflow's pages show every property of its own types.
        if not artifact.has_custom_property(version) and not artifact.type_name.startswith(SYSTEM):
            artifact.set_string_custom_property(version, __version__)
        for key in _IDS:
            if artifact.has_custom_property(key):
                artifact.set_string_custom_property(key, self._names[artifact.get_int_custom_property(key)])
        message, declared = artifact.mlmd_artifact, artifact.artifact_type.properties
        metadata = {key: _value(value) for key, value in message.properties.items()}
        for key, value in message.custom_properties.items():
            metadata[f"{CUSTOM_PROPERTIES_PREFIX}{key}" if key in declared else key] = _value(value)
        name = self._names[artifact.id] if artifact.id else ""
        return {**({"name": name} if name else {}), "uri": artifact.uri, "metadata": metadata}


def artifact_class(artifact_type: Json) -> Any:
    """Returns the class of a type; the title of a type outside TFX is the path of its class."""
    title = artifact_type.get("schemaTitle") or yaml.safe_load(artifact_type["instanceSchema"])["title"]
    if title.startswith(_STANDARD):
        title = f"{_STANDARD}types.standard_artifacts.{title.removeprefix(_STANDARD)}"
    elif title.startswith(SYSTEM):
        title = f"{_SYSTEM_CLASSES}.{title.removeprefix(SYSTEM)}"
    return import_utils.import_class_by_path(title)


def _with_floats(metadata: Json) -> Json:
    """Returns the metadata with floats for integers, as in protobuf."""
    struct = struct_pb2.Struct()
    json_format.ParseDict(metadata, struct)
    found: Json = json_format.MessageToDict(struct)
    return found


def _set(message: Any, declared: Any, key: str, value: Any) -> None:
    """Sets a property if the type declares one of that kind, or else a custom one."""
    match declared.get(key):
        case metadata_store_pb2.INT if isinstance(value, float):
            message.properties[key].int_value = int(value)
        case metadata_store_pb2.DOUBLE if isinstance(value, float):
            message.properties[key].double_value = value
        case metadata_store_pb2.STRING if isinstance(value, str):
            message.properties[key].string_value = value
        case metadata_store_pb2.STRUCT:
            message.properties[key].struct_value.CopyFrom(_encode_struct_value(value))
        case _:
            bare = key.removeprefix(CUSTOM_PROPERTIES_PREFIX)
            own = bare if bare in declared else key
            message.custom_properties[own].struct_value.CopyFrom(_encode_struct_value(value))


def _value(value: Any) -> Any:
    match value.WhichOneof("value"):
        case "int_value":
            return float(value.int_value)
        case "struct_value":
            return _decode_struct_value(value.struct_value)
        case None:
            return None
        case kind:
            return getattr(value, kind)

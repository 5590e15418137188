"""Reads the second document of a compiled pipeline as Kubeflow's backend does: fields that it does not know are errors.

The messages are those of kubernetes_platform/proto/kubernetes_executor_config.proto (kubeflow/pipelines), as far as the
compiler writes them, with their field numbers.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "SecretKeyToEnvMap": {"secret_key": (1, "string"), "env_var": (2, "string")},
    "SecretAsEnv": {"secret_name": (1, "string"), "key_to_env": (2, "*SecretKeyToEnvMap")},
    "PvcMount": {"constant": (2, "string"), "mount_path": (4, "string")},
    "LabelsEntry": {"key": (1, "string"), "value": (2, "string")},
    "NodeSelector": {"labels": (1, "*LabelsEntry")},
    "Toleration": {"key": (1, "string"), "operator": (2, "string"), "value": (3, "string"), "effect": (4, "string")},
    "EmptyDirMount": {
        "volume_name": (1, "string"),
        "mount_path": (2, "string"),
        "medium": (3, "string"),
        "size_limit": (4, "string"),
    },
    "KubernetesExecutorConfig": {
        "secret_as_env": (2, "*SecretAsEnv"),
        "pvc_mount": (3, "*PvcMount"),
        "node_selector": (4, "NodeSelector"),
        "image_pull_policy": (7, "string"),
        "active_deadline_seconds": (10, "int64"),
        "tolerations": (12, "*Toleration"),
        "empty_dir_mounts": (17, "*EmptyDirMount"),
    },
}
_SCALARS = {"string": _FIELD.TYPE_STRING, "int64": _FIELD.TYPE_INT64}


def read_executor_config(document: Mapping[str, Any]) -> Any:
    """Returns one executor's message.

    Raises:
        google.protobuf.json_format.ParseError: for an unknown field, or a value of the wrong type.
    """
    return json_format.ParseDict(document, _CONFIG())


def _descriptor() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="sangam_test/kubernetes_executor_config.proto", package="sangam_test", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        if name == "LabelsEntry":
            continue
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number)
            added.label = _FIELD.LABEL_REPEATED if kind.startswith("*") else _FIELD.LABEL_OPTIONAL
            inner = kind.lstrip("*")
            if inner in _SCALARS:
                added.type = _SCALARS[inner]
            else:
                parent = ".NodeSelector" if inner == "LabelsEntry" else ""
                added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".sangam_test{parent}.{inner}"
        if name == "NodeSelector":
            entry = message.nested_type.add(name="LabelsEntry")
            entry.options.map_entry = True
            for field, (number, _) in _MESSAGES["LabelsEntry"].items():
                entry.field.add(name=field, number=number, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindMessageTypeByName("sangam_test.KubernetesExecutorConfig")


_CONFIG = message_factory.GetMessageClass(_descriptor())

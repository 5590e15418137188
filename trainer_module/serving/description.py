"""The files beside the graph: `ranker.json` describes the model, and warm-up requests prepare a server."""

import json
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from schemas.derived.rank_inputs import input_names
from schemas.spec import RankerSpec
from trainer_module.serving.signatures import DEFAULT, RANK, ServedRanker

FOLDER = "assets.extra"
_DESCRIPTION, _WARM_UP = "ranker.json", "tf_serving_warmup_requests"
_WARM_UP_BATCHES = (1, 8, 64)
_TFRA = "tensorflow_recommenders_addons"


def description(
    spec: RankerSpec, spec_digest: str, served: ServedRanker, signatures: Collection[str]
) -> dict[str, Any]:
    """Returns the description of an exported model as plain data."""
    is_tfra = spec.export.form == "tfra"
    packages = ["tensorflow", "tensorflow_transform", *([_TFRA] if is_tfra else [])]
    inputs = input_names(served.columns.values())
    document = {
        "name": spec.name,
        "spec_digest": spec_digest,
        "ranker": spec.model_dump(mode="json"),
        "tasks": {task: {"kind": kind.kind, "label": spec.label_of(task)} for task, kind in spec.tasks.items()},
        "signatures": sorted(signatures),
        "form": spec.export.form,
        "rows": spec.export.rows,
        "versions": {package: version(package.replace("_", "-")) for package in packages},
        "columns": {
            name: {"type": column.type, "is_list": column.is_list, "input": inputs[name]}
            for name, column in served.columns.items()
        },
        "groups": {name: {"dim": table.group.dim, "tables": table.group.tags} for name, table in served.tables.items()},
    }
    return document | ({"custom_ops": _TFRA} if is_tfra else {})


def write_extras(model_dir: Path, document: dict[str, Any], served: ServedRanker, examples: Sequence[bytes]) -> None:
    """Writes the description, and warm-up requests made of real examples.

    Reference: https://www.tensorflow.org/tfx/serving/saved_model_warmup
    """
    folder = model_dir / FOLDER
    folder.mkdir()
    (folder / _DESCRIPTION).write_text(json.dumps(document, indent=2) + "\n")
    if not examples:
        return
    with tf.io.TFRecordWriter(str(folder / _WARM_UP)) as writer:
        for size in _WARM_UP_BATCHES:
            batch = tf.constant(list(examples[:size]), tf.string)
            for signature, inputs in ((DEFAULT, {"examples": batch}), (RANK, served.rank_inputs(batch))):
                writer.write(_request(document["name"], signature, inputs).SerializeToString())


def _request(model: str, signature: str, inputs: Mapping[str, tf.Tensor]) -> prediction_log_pb2.PredictionLog:
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name, tensor in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
    return prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))

"""The files beside the graph: `ranker.json` describes the model, and warm-up requests prepare a server."""

from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from sangam.schemas.contracts.export import (
    CUSTOM_OPS,
    DESCRIPTION_FILE,
    EXTRAS_FOLDER,
    RANK,
    SERVE,
    WARM_UP_FILE,
    Description,
    ServedColumn,
    ServedGroup,
    ServedTask,
)
from sangam.schemas.derived.rank_inputs import input_names
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.serving.signatures import ServedRanker

_WARM_UP_BATCHES = (1, 8, 64)


def description(
    spec: RankerSpec, spec_digest: str, served: ServedRanker, signatures: Collection[str], own_files: Mapping[str, str]
) -> Description:
    """Returns the description of an exported model."""
    is_tfra = spec.export.form == "tfra"
    packages = ["tensorflow", "tensorflow_transform", *([CUSTOM_OPS] if is_tfra else [])]
    inputs = input_names(served.columns.values())
    return Description(
        name=spec.name,
        spec_digest=spec_digest,
        ranker=spec,
        tasks={
            task: ServedTask(kind=kind.kind, label=spec.label_of(task), calibration=served.calibrations.get(task))
            for task, kind in spec.tasks.items()
        },
        signatures=tuple(sorted(signatures)),
        form=spec.export.form,
        rows=spec.export.rows,
        versions={package: version(package.replace("_", "-")) for package in packages},
        columns={
            name: ServedColumn(type=column.type, is_list=column.is_list, input=inputs[name])
            for name, column in served.columns.items()
        },
        groups={
            name: ServedGroup(dim=table.group.dim, tables=table.group.tags) for name, table in served.tables.items()
        },
        custom_ops=CUSTOM_OPS if is_tfra else None,
        history_as_of=served.history_as_of,
        own_files=dict(own_files),
    )


def write_extras(model_dir: Path, described: Description, served: ServedRanker, examples: Sequence[bytes]) -> None:
    """Writes the description, and warm-up requests from real examples.

    Reference: https://www.tensorflow.org/tfx/serving/saved_model_warmup
    """
    (model_dir / EXTRAS_FOLDER).mkdir()
    (model_dir / DESCRIPTION_FILE).write_text(described.text())
    if not examples:
        return
    with tf.io.TFRecordWriter(str(model_dir / WARM_UP_FILE)) as writer:
        for size in _WARM_UP_BATCHES:
            batch = tf.constant(list(examples[:size]), tf.string)
            for signature, inputs in ((SERVE, {"examples": batch}), (RANK, served.rank_inputs(batch))):
                writer.write(_request(described.name, signature, inputs).SerializeToString())


def _request(model: str, signature: str, inputs: Mapping[str, tf.Tensor]) -> prediction_log_pb2.PredictionLog:
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name, tensor in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
    return prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))

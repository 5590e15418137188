"""A small world for judging: examples with known labels, SavedModels of stock ops, the real evaluator's executor."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tfx.types import standard_artifacts

from components.evaluator.executor import Executor
from components.evaluator.verdict import Verdict
from components.registry.checkpoint import RankerCheckpoint
from schemas.release import AucGate, Gate, RmseGate
from schemas.spec import Inputs

BEAM_ARGS = [
    "--runner=DirectRunner",
    "--direct_running_mode=in_memory",
    "--direct_num_workers=1",
    "--sdk_container_image=unused",
]
TABS = ("home", "profil é", "search")
NUM_ROWS = 1203

INPUTS = Inputs.model_validate_json(
    json.dumps(
        {
            "features": {
                "x": {"kind": "numeric"},
                "noise": {"kind": "numeric"},
                "tab": {"kind": "id", "type": "string", "table": "tabs", "column": "tab_name"},
            },
            "tasks": {
                "like": {"kind": "binary"},
                "download": {"kind": "binary", "label": "downloaded"},
                "watch": {"kind": "regression", "label": "watched_s"},
            },
        }
    )
)
LIKE = AucGate(metric="auc", task="like", at_least=0.6, max_drop=0.02)
DOWNLOAD = AucGate(metric="auc", task="download", at_least=0.6)
WATCH = RmseGate(metric="rmse", task="watch", at_most=2.0, max_rise=0.1)
GATES: tuple[Gate, ...] = (LIKE, DOWNLOAD, WATCH)


def rows() -> dict[str, np.ndarray]:
    """Returns columns: two features, a slice, and labels that follow x."""
    random = np.random.default_rng(7)
    x = random.normal(size=NUM_ROWS).astype(np.float32)
    return {
        "x": x,
        "noise": random.normal(size=NUM_ROWS).astype(np.float32),
        "tab_name": np.array([TABS[index % 3].encode() for index in range(NUM_ROWS)]),
        "like": (random.random(NUM_ROWS) < 1 / (1 + np.exp(1 - 2 * x))).astype(np.int64),
        "downloaded": (random.random(NUM_ROWS) < 1 / (1 + np.exp(3 - x))).astype(np.int64),
        "never": np.zeros(NUM_ROWS, np.int64),
        "watched_s": (3 * x + random.normal(size=NUM_ROWS)).astype(np.float32),
    }


def scores(columns: dict[str, np.ndarray], noise: float = 0.0) -> dict[str, np.ndarray]:
    """Returns what `export_model(noise=noise)` predicts."""
    seen = columns["x"].astype(np.float64) + noise * columns["noise"]
    return {"like": 1 / (1 + np.exp(1 - 2 * seen)), "download": 1 / (1 + np.exp(3 - seen)), "watch": 3 * seen}


def write_examples(uri: Path, columns: dict[str, np.ndarray]) -> None:
    """Writes the eval split as two gzipped TFRecord shards."""
    folder = uri / "Split-eval"
    folder.mkdir(parents=True)
    for shard in range(2):
        with tf.io.TFRecordWriter(str(folder / f"examples-{shard}.gz"), options="GZIP") as writer:
            for index in range(shard, len(columns["x"]), 2):
                features = {name: _feature(values[index]) for name, values in columns.items()}
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _feature(value: Any) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, np.integer):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))


def export_model(
    uri: Path, *, noise: float = 0.0, tasks: tuple[str, ...] = ("like", "download", "watch"), column: str = "x"
) -> None:
    """Exports a model that scores by `x + noise * column noise`; the more noise, the worse."""
    module = tf.Module()
    module.noise = tf.Variable(noise)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        spec = {name: tf.io.FixedLenFeature([1], tf.float32) for name in (column, "noise")}
        parsed = tf.io.parse_example(examples, spec)
        seen = parsed[column] + module.noise * parsed["noise"]
        every = {"like": tf.sigmoid(2 * seen - 1), "download": tf.sigmoid(seen - 3), "watch": 3 * seen}
        every["never"] = every["like"]
        return {task: every[task] for task in tasks}

    tf.saved_model.save(module, str(uri / "Format-Serving"), signatures={"serving_default": serve})


CHECKPOINT_PROPERTIES = {
    "days": '["2024-02-28", "2024-02-29"]',
    "transform_graph": "graph",
    "inputs_digest": "i1",
}


def checkpoint_artifact(uri: Path) -> Any:
    """Returns the artifact of the checkpoint that belongs to a model."""
    artifact = RankerCheckpoint()
    artifact.uri = f"{uri}-checkpoint"
    for name, value in CHECKPOINT_PROPERTIES.items():
        artifact.set_string_custom_property(name, value)
    return artifact


@dataclass(frozen=True)
class Judged:
    """What an evaluation left behind."""

    verdict: Verdict
    blessing: Any
    evaluation: Any


def examples_artifact(uri: Path) -> Any:
    """Returns the artifact of `write_examples`."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    artifact.split_names = json.dumps(["eval"])
    artifact.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    return artifact


def model_artifact(uri: Path) -> Any:
    """Returns the artifact of `export_model`."""
    artifact = standard_artifacts.Model()
    artifact.uri = str(uri)
    return artifact


def evaluate(
    folder: Path,
    *,
    root: Path,
    examples: Path,
    model: Path,
    gates: tuple[Gate, ...] = GATES,
    inputs: Inputs = INPUTS,
    slices: tuple[tuple[str, ...], ...] = (),
) -> Judged:
    """Runs the evaluator's executor, outputs in `folder`, registry in `root`."""
    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    evaluation.uri, blessing.uri = str(folder / "evaluation"), str(folder / "blessing")
    os.makedirs(evaluation.uri)
    os.makedirs(blessing.uri)
    context = Executor.Context(beam_pipeline_args=BEAM_ARGS, tmp_dir=str(folder / "tmp"), unique_id="1")
    inputs_of_step = {
        "examples": [examples_artifact(examples)],
        "model": [model_artifact(model)],
        "checkpoint": [checkpoint_artifact(model)],
    }
    Executor(context).Do(
        inputs_of_step,
        {"evaluation": [evaluation], "blessing": [blessing]},
        {
            "name": "tiny",
            "inputs": inputs.model_dump_json(),
            "slicing": json.dumps({"slices": slices}),
            "gates": json.dumps([gate.model_dump(mode="json") for gate in gates]),
            "ranker_digest": "d1",
            "pipeline_root": str(root),
            "code": "c1",
        },
    )
    verdict = Verdict.model_validate_json((Path(evaluation.uri) / "verdict.json").read_bytes())
    return Judged(verdict=verdict, blessing=blessing, evaluation=evaluation)

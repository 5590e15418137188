"""A small world for judging: examples with known labels, SavedModels of stock ops, the real evaluator's executor."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from sangam.components.registry import seal
from sangam.components.reports.evaluation import Verdict
from sangam.components.steps.evaluator.executor import Executor
from sangam.schemas.contracts.example_files import values_of
from sangam.schemas.contracts.export import BLOCKS, ExportReport, known_ids_of
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.release import Gate
from sangam.schemas.spec.serving import Export
from tests.beam_args import BEAM_ARGS

TABS = ("home", "profil é", "search")
NUM_ROWS = 1203

INPUTS = Inputs.model_validate_json(
    json.dumps(
        {
            "features": {
                "x": {"kind": "numeric", "normalize": "zscore"},
                "noise": {"kind": "numeric", "normalize": "zscore"},
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
LIKE = Gate(metric="auc", task="like", at_least=0.6, max_drop=0.02)
DOWNLOAD = Gate(metric="auc", task="download", at_least=0.6)
WATCH = Gate(metric="rmse", task="watch", at_most=2.0, max_rise=0.1)
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


Flaw = Literal["", "nan", "slice", "task", "shape"]
"""What is wrong with a model: NaN for some rows, the wrong way round on tab `search` or for task `download`, scores of
two columns for task `download`."""


def export_model(
    uri: Path,
    *,
    noise: float = 0.0,
    tasks: tuple[str, ...] = ("like", "download", "watch"),
    column: str = "x",
    flaw: Flaw = "",
    knows_ids: bool = True,
) -> None:
    """Exports a model that scores by `x + noise * column noise`; the more noise, the worse.

    Args:
        uri: of the artifact.
        noise: see above.
        tasks: that it scores.
        column: that it reads in place of x.
        flaw: see Flaw.
        knows_ids: tells the ids that have a row, all but the tab `search`.
    """
    module = tf.Module()
    module.noise = tf.Variable(noise)
    types = {column: tf.float32, "noise": tf.float32} | (
        {"tab_name": tf.string} if flaw == "slice" or knows_ids else {}
    )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="blocks")])
    def score(blocks: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = one_value_each(blocks, types)
        seen = parsed[column] + module.noise * parsed["noise"]
        if flaw == "slice":
            seen = tf.where(parsed["tab_name"] == "search", -seen, seen)
        every = {"like": tf.sigmoid(2 * seen - 1), "download": tf.sigmoid(seen - 3), "watch": 3 * seen}
        every["never"] = every["like"]
        if flaw == "nan":
            every["like"] = tf.where(parsed["noise"] > 1.5, math.nan, every["like"])
        if flaw == "task":
            every["download"] = 1 - every["download"]
        if flaw == "shape":
            every["download"] = tf.concat([every["download"]] * 2, axis=1)
        known = {known_ids_of("tab"): parsed["tab_name"][:, 0] != "search"} if knows_ids else {}
        return {task: every[task] for task in tasks} | known

    tf.saved_model.save(module, str(uri / "Format-Serving"), signatures={BLOCKS: score})


def one_value_each(blocks: tf.Tensor, types: dict[str, tf.DType]) -> dict[str, tf.Tensor]:
    """Returns columns of decompressed blocks of which each row has one value: [rows, 1]."""
    features = {values_of(name): tf.io.VarLenFeature(kind) for name, kind in types.items()}
    values = {name: tf.io.parse_example(blocks, features)[values_of(name)].values[:, None] for name in types}
    with tf.control_dependencies([tf.debugging.assert_positive(tf.size(values[name]), name) for name in types]):
        return {name: tf.identity(column) for name, column in values.items()}


@dataclass(frozen=True)
class Judged:
    """What an evaluation left behind."""

    verdict: Verdict
    blessing: Any
    evaluation: Any


def examples_artifact(uri: Path) -> Any:
    """Returns the artifact of `sample_files.write_eval_split`."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    artifact.split_names = json.dumps(["eval"])
    return artifact


def model_artifact(uri: Path) -> Any:
    """Returns the artifact of `export_model`, sealed as the trainer does it."""
    artifact = standard_artifacts.Model()
    artifact.uri = str(uri)
    artifact.set_string_custom_property(seal.SHA256, seal.seal(path_utils.serving_model_path(artifact.uri)))
    return artifact


def _training_artifact(uri: Path, report: ExportReport | None) -> Any:
    uri.mkdir(parents=True)
    if report is not None:
        (uri / "export.json").write_text(report.model_dump_json())
    artifact = standard_artifacts.ModelRun()
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
    evaluation_config: dict[str, Any] | None = None,
    export: Export | None = None,
    report: ExportReport | None = None,
) -> Judged:
    """Runs the evaluator's executor, outputs in `folder`, registry in `root`.

    Args:
        folder: for the outputs.
        root: of the pipeline.
        examples: of `sample_files.write_eval_split`.
        model: of `export_model`.
        gates: to judge by.
        inputs: tasks and features.
        evaluation_config: the spec's `evaluation` section; without intervals by default.
        export: the spec's.
        report: what training has left of the export.
    """
    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    evaluation.uri, blessing.uri = str(folder / "evaluation"), str(folder / "blessing")
    os.makedirs(evaluation.uri)
    os.makedirs(blessing.uri)
    context = Executor.Context(beam_pipeline_args=list(BEAM_ARGS), tmp_dir=str(folder / "tmp"), unique_id="1")
    inputs_of_step = {
        "examples": [examples_artifact(examples)],
        "model": [model_artifact(model)],
        "training": [_training_artifact(folder / "training", report)],
    }
    Executor(context).Do(
        inputs_of_step,
        {"evaluation": [evaluation], "blessing": [blessing]},
        {
            "name": "tiny",
            "inputs": inputs.model_dump_json(),
            "evaluation_config": json.dumps({"confidence": {"replicates": 0}} | (evaluation_config or {})),
            "export": (export or Export()).model_dump_json(),
            "gates": json.dumps([gate.model_dump(mode="json") for gate in gates]),
            "pipeline_root": str(root),
            "code": "c1",
        },
    )
    verdict = Verdict.model_validate_json((Path(evaluation.uri) / "verdict.json").read_bytes())
    return Judged(verdict=verdict, blessing=blessing, evaluation=evaluation)

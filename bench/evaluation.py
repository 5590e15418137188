"""What an evaluation costs: TFMA in Beam over 100,000 examples, two tasks, six slices. `python -m bench.evaluation`.

Two stock models score a few columns, so that what is measured is the reading, slicing and counting, not a ranker.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tfx.components.evaluator import executor as tfx_executor
from tfx.types import standard_artifacts
from tfx.utils import json_utils, proto_utils

from components.steps.evaluator.eval_config import eval_config
from components.steps.evaluator.slices.extractors import custom_extractors
from pipelines.beam import BEAM_ARGS
from schemas.contracts.export import SERVE
from schemas.spec import Inputs
from schemas.spec.release import Evaluation

_NUM_EXAMPLES = 100_000
_IDS = {"tab": 3, "language": 2, "user": 5_000, "session": 8_000}
_INPUTS = {
    "features": {"x": {"kind": "numeric"}} | {name: {"kind": "id", "type": "string", "table": "t"} for name in _IDS},
    "tasks": {"like": {"kind": "binary"}, "share": {"kind": "binary"}},
}
_GROUPED = {"group": {"by": "user"}, "list": {"by": "session", "k": [5, 10]}}
_CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "no bootstrap, one model": ({"confidence": {"replicates": 0}}, False),
    "100 replicates, one model": ({}, False),
    "100 replicates, two models": ({}, True),
    "100 replicates, two models, groups and lists": (_GROUPED, True),
    "100 replicates by user, two models, groups and lists": (_GROUPED | {"confidence": {"by": "user"}}, True),
    "100 replicates, two models, a slice for each of 5,000 users": ({"slices": [["user"]]}, True),
}


def main(output: str | None = None) -> None:
    """Prints the seconds of each case, and writes them as JSON."""
    inputs = Inputs.model_validate_json(json.dumps(_INPUTS))
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder = Path(directory)
        _write_examples(folder / "examples" / "Split-eval")
        for name, noise in (("candidate", 0.3), ("baseline", 0.0)):
            _export(folder / name / "Format-Serving", noise)
        for number, (name, (evaluation, has_baseline)) in enumerate(_CASES.items()):
            parsed = Evaluation.model_validate_json(json.dumps({"slices": [["tab"], ["language"]]} | evaluation))
            seconds[name] = _seconds(folder, str(number), inputs, parsed, has_baseline=has_baseline)
            print(f"{seconds[name]['wall_s']:6.1f} s, {seconds[name]['cpu_s']:6.1f} s of CPU: {name}", flush=True)
    if output:
        Path(output).write_text(json.dumps(seconds, indent=2))


def _seconds(folder: Path, run: str, inputs: Inputs, evaluation: Evaluation, *, has_baseline: bool) -> dict[str, float]:
    config = eval_config(
        inputs=inputs, evaluation=evaluation, gates=(), baseline_tasks=list(inputs.tasks) if has_baseline else ()
    )
    examples = _artifact(standard_artifacts.Examples, folder / "examples")
    examples.split_names = json.dumps(["eval"])
    examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    artifacts = {"examples": [examples], "model": [_artifact(standard_artifacts.Model, folder / "candidate")]}
    if has_baseline:
        artifacts["baseline_model"] = [_artifact(standard_artifacts.Model, folder / "baseline")]
    outputs = {
        "evaluation": [_artifact(standard_artifacts.ModelEvaluation, folder / run / "evaluation")],
        "blessing": [_artifact(standard_artifacts.ModelBlessing, folder / run / "blessing")],
    }
    context = tfx_executor.Executor.Context(
        beam_pipeline_args=list(BEAM_ARGS), tmp_dir=str(folder / run), unique_id=run
    )
    wall, cpu = time.perf_counter(), time.process_time()
    tfx_executor.Executor(context).Do(
        artifacts,
        outputs,
        {
            "eval_config": proto_utils.proto_to_json(config),
            "example_splits": json_utils.dumps(["eval"]),
            "custom_extractors": f"{custom_extractors.__module__}.{custom_extractors.__name__}",
        },
    )
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def _artifact(kind: Any, uri: Path) -> Any:
    artifact = kind()
    artifact.uri = str(uri)
    os.makedirs(uri, exist_ok=True)
    return artifact


def _write_examples(folder: Path) -> None:
    folder.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "examples.gz"), options="GZIP") as writer:
        for feature in _examples(np.random.default_rng(0)):
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def _examples(random: np.random.Generator) -> Iterator[dict[str, tf.train.Feature]]:
    x, noise = random.normal(size=(2, _NUM_EXAMPLES))
    labels = {task: random.random(_NUM_EXAMPLES) < 1 / (1 + np.exp(2 - x)) for task in _INPUTS["tasks"]}
    ids = {name: random.integers(0, size, _NUM_EXAMPLES) for name, size in _IDS.items()}
    for row in range(_NUM_EXAMPLES):
        feature = {"x": tf.train.Feature(float_list={"value": [x[row]]})}
        feature["noise"] = tf.train.Feature(float_list={"value": [noise[row]]})
        for name, values in ids.items():
            feature[name] = tf.train.Feature(bytes_list={"value": [f"{name} {values[row]}".encode()]})
        for task, values in labels.items():
            feature[task] = tf.train.Feature(int64_list={"value": [int(values[row])]})
        yield feature


def _export(path: Path, noise: float) -> None:
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        spec = {name: tf.io.FixedLenFeature([1], tf.float32) for name in ("x", "noise")}
        parsed = tf.io.parse_example(examples, spec)
        score = tf.sigmoid(parsed["x"] + noise * parsed["noise"] - 2)
        return {task: score for task in _INPUTS["tasks"]}

    tf.saved_model.save(module, str(path), signatures={SERVE: serve})


if __name__ == "__main__":
    main(*sys.argv[1:])

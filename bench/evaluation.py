"""Cost of an evaluation of two tasks and six slices: `python -m bench.evaluation ROWS [CASE]...`, on Beam.

Two stock models score a few columns, so that what is measured is the reading, slicing and counting, not a ranker.
`python -m bench.evaluation --metrics ROWS [CASE]...`: the same without Beam, reading and models, from arrays in memory.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf

from sangam.components.examples.writer import BlockWriter
from sangam.components.steps.evaluator.metrics import group_sums
from sangam.components.steps.evaluator.metrics.measured import BASELINE, CANDIDATE
from sangam.components.steps.evaluator.metrics.tally import Tally
from sangam.components.steps.evaluator.models import loaded
from sangam.components.steps.evaluator.models.scoring import Models, Scores
from sangam.components.steps.evaluator.plan import Plan, plan_of
from sangam.components.steps.evaluator.slices.blocks import block_of
from sangam.components.steps.evaluator.slices.measuring import measure
from sangam.components.steps.evaluator.slices.slicing import count
from sangam.pipelines.beam import engine_args
from sangam.schemas.contracts.export import SERVE
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.beam import Local
from sangam.schemas.spec.release import Evaluation

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


def main(*arguments: str) -> None:
    """Prints the cost of each case."""
    if arguments[:1] == ("--metrics",):
        _print_metrics(int(arguments[1]), arguments[2:] or tuple(_CASES))
        return
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder = Path(directory)
        _write_examples(folder / "examples", int(arguments[0]))
        for name, noise in ((CANDIDATE, 0.3), (BASELINE, 0.0)):
            _export(folder / name, noise)
        for number, name in enumerate(arguments[1:] or _CASES):
            evaluation, has_baseline = _CASES[name]
            wall_s, cpu_s = _seconds(folder, str(number), _plan(evaluation, has_baseline=has_baseline))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            print(f"{wall_s:6.1f} s, {cpu_s:6.1f} s of CPU, {memory} MB: {name}", flush=True)


def _plan(evaluation: dict[str, Any], *, has_baseline: bool) -> Plan:
    inputs = Inputs.model_validate_json(json.dumps(_INPUTS))
    parsed = Evaluation.model_validate_json(json.dumps({"slices": [["tab"], ["language"]]} | evaluation))
    return plan_of(
        inputs=inputs, evaluation=parsed, gates=(), baseline_tasks=list(inputs.tasks) if has_baseline else ()
    )


def _seconds(folder: Path, run: str, plan: Plan) -> tuple[float, float]:
    """Returns the seconds on the clock and of the processor."""
    models = {CANDIDATE: str(folder / CANDIDATE)} | ({BASELINE: str(folder / BASELINE)} if plan.baseline_tasks else {})
    sources = [str(path) for path in (folder / "examples").iterdir()]
    wall, cpu = time.perf_counter(), time.process_time()
    with beam.Pipeline(argv=list(engine_args(Local()))) as pipeline:
        measure(pipeline, sources=sources, models=Models(models), plan=plan, num_parts=3, folder=str(folder / run))
    loaded.release_all()
    return time.perf_counter() - wall, time.process_time() - cpu


def _print_metrics(rows: int, cases: Sequence[str]) -> None:
    for name in cases:
        evaluation, has_baseline = _CASES[name]
        plan = _plan(evaluation, has_baseline=has_baseline)
        seconds, results_s = _metrics_seconds(rows, plan)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        rate = rows / (seconds + results_s)
        print(
            f"{rate:9,.0f} rows/s: {seconds:6.1f} s and {results_s:5.1f} s at the end, {memory} MB: {name}", flush=True
        )


def _metrics_seconds(rows: int, plan: Plan) -> tuple[float, float]:
    """Returns the CPU seconds of counting generated examples, and of the metrics in the end."""
    measures, tallies = plan.measures(), {}
    parts: dict[tuple[str, int], list[group_sums.GroupRows]] = {}
    counting = 0.0
    for start in range(0, rows, 32_768):
        batch, scores = _generated(np.random.default_rng(start), 32_768, plan)
        began = time.process_time()
        block, codes = block_of(batch, scores, plan)
        count(block, codes, measures, tallies)
        for key, of_part in group_sums.split(block, codes, plan.group_targets, 1 + rows // 50_000):
            parts.setdefault(key, []).append(of_part)
        counting += time.process_time() - began
    began = time.process_time()
    sizes = {name: tally.num_examples for name, tally in tallies.items()}
    for (purpose, _), of_part in parts.items():
        together = group_sums.joined(of_part)
        for name, sums in group_sums.summed(purpose, together, plan.settings, plan.group_targets, sizes):
            of_slice = Tally(measures)
            of_slice.add_means(sums)
            tallies[name].merge(of_slice)
    for tally in tallies.values():
        tally.result(plan.settings.least_examples)
    return counting, time.process_time() - began


def _generated(random: np.random.Generator, size: int, plan: Plan) -> tuple[pa.RecordBatch, Scores]:
    x, noise = random.normal(size=(2, size))
    columns: dict[str, Any] = {"x": pa.array(x.astype(np.float32)), "noise": pa.array(noise.astype(np.float32))}
    for name, number in _IDS.items():
        values = pa.array([f"{name} {value}".encode() for value in range(number)])
        columns[name] = values.take(pa.array(random.integers(0, number, size)))
    for task in _INPUTS["tasks"]:
        columns[task] = pa.array((random.random(size) < 1 / (1 + np.exp(2 - x))).astype(np.int64))
    ends = pa.array(np.arange(size + 1, dtype=np.int32))
    lists = [pa.ListArray.from_arrays(ends, values) for values in columns.values()]
    scores = {
        model: (1 / (1 + np.exp(2 - x - share * noise))).astype(np.float32)[:, None]
        for model, share in ((CANDIDATE, 0.3), (BASELINE, 0.0))
    }
    by_model = {model: dict.fromkeys(plan.kinds, values) for model, values in scores.items()}
    return pa.RecordBatch.from_arrays(lists, list(columns)), Scores(by_model, {})


def _write_examples(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True)
    plan = _plan({}, has_baseline=False)
    with BlockWriter(str(folder), None, 0) as writer:
        for start in range(0, rows, 20_000):
            writer.write(_generated(np.random.default_rng(start), 20_000, plan)[0])


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

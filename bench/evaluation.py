"""Cost of an evaluation, in microseconds of the processor a row: `python -m bench.evaluation FOLDER ROWS`.

The demo's spec, with a day of ROWS rows to train on and the next one to evaluate; FOLDER keeps the run. The parts are
called one after another as `slices.measuring` calls them, then all of them by Beam, then the whole step. Loading the
model and its first call are told apart.

`python -m bench.evaluation --metrics ROWS [CASE]...`: slicing and counting alone, from arrays in memory.
"""

import json
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import yaml
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from sangam.components.examples.blocks import rows_of
from sangam.components.registry import seal
from sangam.components.steps.evaluator.executor import Executor
from sangam.components.steps.evaluator.metrics import group_sums
from sangam.components.steps.evaluator.metrics.block import joined
from sangam.components.steps.evaluator.metrics.measured import BASELINE, CANDIDATE, encoded, is_all
from sangam.components.steps.evaluator.metrics.tally import Tally
from sangam.components.steps.evaluator.models import loaded
from sangam.components.steps.evaluator.models.examples import num_examples, read_with_blocks, sources
from sangam.components.steps.evaluator.models.scoring import Models, Scores, scores_of
from sangam.components.steps.evaluator.plan import Plan, plan_of
from sangam.components.steps.evaluator.slices.blocks import block_of, joined_codes
from sangam.components.steps.evaluator.slices.measuring import EXAMPLES_PER_PART, LEAST_COUNTED, measure
from sangam.components.steps.evaluator.slices.slicing import count
from sangam.pipelines.beam import engine_args
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Inputs, Spec
from sangam.schemas.spec.beam import Local
from sangam.schemas.spec.data import EVAL
from sangam.schemas.spec.release import Evaluation

_DEMO = Path("pipelines/specs/short_video.yaml")
_FIRST_DAY, _LAST_DAY = "2024-03-06", "2024-03-07"
_ROWS_A_USER = 10
"""As many as in the demo."""
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
    "100 replicates by user, two models, groups and lists": (_GROUPED | {"confidence": {"by": "user"}}, True),
    "100 replicates, two models, a slice for each of 5,000 users": ({"slices": [["user"]]}, True),
}


def main(*arguments: str) -> None:
    """Prints the cost of each case."""
    if arguments[:1] == ("--metrics",):
        _print_metrics(int(arguments[1]), arguments[2:] or tuple(_CASES))
        return
    folder, rows = Path(arguments[0]), int(arguments[1])
    spec = _spec(folder)
    if not (folder / "root" / "serving").exists():
        _run(folder, rows)
    for name, has_baseline in (("one model", False), ("with the blessed model", True)):
        print(f"{name}:", flush=True)
        costs = _costs(spec, folder, has_baseline=has_baseline)
        for part, seconds in costs.items():
            print(f"{seconds / rows * 1e6:8.2f} us a row, {seconds:6.2f} s: {part}", flush=True)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{rows / costs['all by Beam']:8,.0f} rows a second of a core, {memory} MB", flush=True)


def _spec(folder: Path) -> Spec:
    demo = yaml.safe_load(_DEMO.read_text())
    demo["data"]["train_days"], demo["training"]["epochs"] = 1, 1
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.yaml").write_text(yaml.safe_dump(demo))
    return load_spec(folder / "spec.yaml")


def _run(folder: Path, rows: int) -> None:
    """Makes two days of logs, and runs the pipeline on them."""
    sizes = ["--rows-per-day", rows, "--users", rows // _ROWS_A_USER, "--posts", rows // _ROWS_A_USER]
    for command in (
        ["generate", "--output", folder / "logs", "--first-day", _FIRST_DAY, "--days", 2, *sizes],
        ["run", folder / "spec.yaml", "--data", folder / "logs", "--root", folder / "root", "--date", _LAST_DAY],
    ):
        subprocess.run([sys.executable, "-m", "sangam.pipelines.cli", *map(str, command)], check=True)


def _costs(spec: Spec, folder: Path, *, has_baseline: bool) -> dict[str, float]:
    """Returns the CPU seconds of each part, of all by Beam, and of the whole step, after a first call of the model."""
    examples, model, training = (_artifact(folder / "root", *which) for which in _ARTIFACTS)
    path = path_utils.serving_model_path(model.uri)
    plan = plan_of(
        inputs=spec.inputs(),
        evaluation=spec.evaluation,
        gates=spec.quality_gates,
        baseline_tasks=list(spec.tasks) if has_baseline else (),
    )
    models = Models({CANDIDATE: path} | ({BASELINE: path} if has_baseline else {}), CANDIDATE)
    files = sources(examples, EVAL)
    num_parts = 1 + num_examples(examples, EVAL) // EXAMPLES_PER_PART
    costs = {
        "the first call: loading, tracing": _cpu_s(
            lambda: scores_of(next(read_with_blocks(files[0], plan.read))[0], models)
        )
    }
    costs |= _parts(plan, models, files, num_parts)

    def by_beam() -> None:
        with beam.Pipeline(argv=list(engine_args(Local()))) as pipeline:
            measure(
                pipeline, sources=files, models=models, plan=plan, num_parts=num_parts, folder=str(folder / "measured")
            )

    costs["all by Beam"] = _cpu_s(by_beam)
    loaded.release_all()
    if not has_baseline:
        given = {"examples": [examples], "model": [model], "training": [training]}
        costs["the whole step, with loading, leaks and importances"] = _cpu_s(lambda: _step(spec, folder, given))
    return costs


_ARTIFACTS = (
    ("example_gen/examples", standard_artifacts.Examples),
    ("trainer/model", standard_artifacts.Model),
    ("trainer/training", standard_artifacts.ModelRun),
)


def _artifact(root: Path, name: str, kind: Any) -> Any:
    artifact = kind()
    artifact.uri = str(max((root / "artifacts" / name).iterdir(), key=lambda path: int(path.name)))
    if kind is standard_artifacts.Model:
        artifact.set_string_custom_property(seal.SHA256, seal.seal(path_utils.serving_model_path(artifact.uri)))
    return artifact


def _parts(plan: Plan, models: Models, files: Sequence[str], num_parts: int) -> dict[str, float]:
    """Returns the CPU seconds of each part for all examples."""
    seconds: dict[str, float] = defaultdict(float)

    def timed(part: str, call: Callable[..., Any], *given: Any) -> Any:
        began = time.process_time()
        result = call(*given)
        seconds[part] += time.process_time() - began
        return result

    measures, tallies = plan.measures(), {}
    parts: dict[tuple[str, int], list[group_sums.GroupRows]] = defaultdict(list)
    for some in _chunks(plan, models, files, timed):
        block, codes = timed("arrays, slices", _joined, some)
        timed("metrics and intervals: counting", count, block, codes, measures, tallies)
        timed("groups and lists", _split, parts, block, codes, plan, num_parts)
    timed("groups and lists", _add_groups, parts, tallies, plan)
    timed("metrics and intervals: results", _results, tallies, plan)
    return dict(seconds)


def _chunks(plan: Plan, models: Models, files: Sequence[str], timed: Any) -> Iterator[list[Any]]:
    waiting: list[Any] = []
    for file in files:
        read = read_with_blocks(file, plan.read)
        while (found := timed("reading", next, read, None)) is not None:
            blocks, batch = found
            scores = timed("the models", scores_of, blocks, models)
            waiting.append(timed("arrays, slices", block_of, batch, scores, plan, partial(rows_of, blocks)))
            if sum(len(block) for block, _ in waiting) >= LEAST_COUNTED:
                yield waiting
                waiting = []
    if waiting:
        yield waiting


def _joined(some: list[Any]) -> Any:
    blocks, codes = zip(*some, strict=True)
    return joined(blocks), joined_codes(codes)


def _split(parts: dict[Any, list[group_sums.GroupRows]], block: Any, codes: Any, plan: Plan, num_parts: int) -> None:
    for key, rows in group_sums.split(block, codes, plan.group_targets, num_parts):
        parts[key].append(rows)


def _add_groups(parts: dict[Any, list[group_sums.GroupRows]], tallies: dict[str, Tally], plan: Plan) -> None:
    sizes = {name: tally.num_examples for name, tally in tallies.items()}
    for (by, _), of_part in parts.items():
        together = group_sums.joined(of_part)
        for name, sums in group_sums.summed(by, together, plan.settings, plan.group_targets, sizes):
            tallies[name].add_means(sums)


def _results(tallies: dict[str, Tally], plan: Plan) -> None:
    for name, tally in tallies.items():
        result = tally.result(plan.settings.least_examples, with_curves=is_all(name))
        encoded(name, result, plan.settings.confidence.level)


def _step(spec: Spec, folder: Path, given: dict[str, list[Any]]) -> None:
    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    for artifact, name in ((evaluation, "evaluation"), (blessing, "blessing")):
        artifact.uri = str(folder / "judged" / name)
        Path(artifact.uri).mkdir(parents=True, exist_ok=True)
    context = Executor.Context(beam_pipeline_args=list(engine_args(Local())), tmp_dir=str(folder), unique_id="1")
    Executor(context).Do(
        given,
        {"evaluation": [evaluation], "blessing": [blessing]},
        {
            "name": spec.name,
            "inputs": spec.inputs().model_dump_json(),
            "evaluation_config": spec.evaluation.model_dump_json(),
            "gates": json.dumps([gate.model_dump(mode="json") for gate in spec.quality_gates]),
            "export": spec.export.model_dump_json(),
            "pipeline_root": str(folder / "no_registry"),
            "code": "",
        },
    )


def _cpu_s(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


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


def _plan(evaluation: dict[str, Any], *, has_baseline: bool) -> Plan:
    inputs = Inputs.model_validate_json(json.dumps(_INPUTS))
    parsed = Evaluation.model_validate_json(json.dumps({"slices": [["tab"], ["language"]]} | evaluation))
    return plan_of(
        inputs=inputs, evaluation=parsed, gates=(), baseline_tasks=list(inputs.tasks) if has_baseline else ()
    )


def _metrics_seconds(rows: int, plan: Plan) -> tuple[float, float]:
    """Returns the CPU seconds of counting generated examples, and of the metrics in the end."""
    measures, tallies = plan.measures(), {}
    parts: dict[tuple[str, int], list[group_sums.GroupRows]] = defaultdict(list)
    counting = 0.0
    for start in range(0, rows, LEAST_COUNTED):
        batch, scores = _generated(np.random.default_rng(start), LEAST_COUNTED, plan)
        began = time.process_time()
        block, codes = block_of(batch, scores, plan, partial(pa.RecordBatch.slice, batch))
        count(block, codes, measures, tallies)
        _split(parts, block, codes, plan, 1 + rows // EXAMPLES_PER_PART)
        counting += time.process_time() - began
    return counting, _cpu_s(lambda: (_add_groups(parts, tallies, plan), _results(tallies, plan)))


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


if __name__ == "__main__":
    main(*sys.argv[1:])

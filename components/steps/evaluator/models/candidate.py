"""Checks that a candidate scores every task of every example, and reads for which features it reports known ids.

Within Beam, a candidate that does not score all examples would end the step without a verdict.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from tensorflow.core.protobuf import saved_model_pb2
from tfx.dsl.io import fileio
from tfx.utils import path_utils

from sangam.components.reports.evaluation import GateVerdict, TaskVerdict, Verdict
from sangam.components.steps.evaluator.models import probe
from sangam.schemas.contracts.export import BLOCKS, MODEL_FILE, feature_of_known_ids


def output_problems(uri: str, *, tasks: Iterable[str], examples: Any, split: str) -> dict[str, str]:
    """Returns what is wrong with the scores of each task that cannot be measured, empty for a sound model.

    Args:
        uri: URI of the model artifact.
        tasks: tasks that it must score.
        examples: artifact with the examples, of which a few are scored.
        split: split of the examples.
    """
    path = path_utils.serving_model_path(uri)
    if not fileio.exists(os.path.join(path, MODEL_FILE)):
        return dict.fromkeys(tasks, f"there is no {MODEL_FILE}")
    rows = probe.first_examples(examples, split)
    if rows is None:
        return {}  # `judge` refuses an evaluation without examples.
    try:
        outputs = probe.score(path, rows)
    except probe.MISFITS as error:
        return dict.fromkeys(tasks, f"the model cannot score the examples ({probe.in_short(error)})")
    shapes = {name: (tuple(output.shape), output.dtype.name) for name, output in outputs.items()}
    problems = {task: _problem(task, shapes, rows.num_rows) for task in tasks}
    return {task: problem for task, problem in problems.items() if problem}


def features_with_known_ids(model_path: str) -> frozenset[str]:
    """Returns the features whose known ids a SavedModel reports."""
    saved_model = saved_model_pb2.SavedModel()
    with fileio.open(os.path.join(model_path, MODEL_FILE), "rb") as file:
        saved_model.ParseFromString(file.read())
    return frozenset(
        feature
        for graph in saved_model.meta_graphs
        if BLOCKS in graph.signature_def
        for feature in map(feature_of_known_ids, graph.signature_def[BLOCKS].outputs)
        if feature is not None
    )


def refusal(problems: Mapping[str, str], tasks: Iterable[str]) -> Verdict:
    """Returns the verdict on a candidate that cannot be measured."""
    return Verdict(
        blessed=False,
        baseline=None,
        notes=[f"{task} was not measured: other tasks have no usable scores" for task in tasks if task not in problems],
        tasks={
            task: TaskVerdict(metrics={}, slices={}, gates=[_refused(problems[task])] if task in problems else [])
            for task in tasks
        },
    )


def _problem(task: str, shapes: Mapping[str, tuple[tuple[int, ...], str]], rows: int) -> str:
    if task not in shapes:
        return f"the signature {BLOCKS} has no output of this name (got {', '.join(sorted(shapes)) or 'none'})"
    shape, dtype = shapes[task]
    if shape != (rows, 1) or dtype != "float32":
        return f"its scores of {rows} examples are {dtype}{list(shape)}, not float32[{rows}, 1]"
    return ""


def _refused(problem: str) -> GateVerdict:
    return GateVerdict(kind="output", metric=BLOCKS, bound=0.0, value=None, passed=False, reason=problem)

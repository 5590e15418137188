"""Runs executors of TFX on an ExecutorInput, and writes the ExecutorOutput: a module of the compiled pipeline.

In place of tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor, which imports all components of TFX and
Kubeflow's client: for a small step, the imports take longer than its work.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sangam.components.kfp_entrypoint.invocation import INPUTS_SPEC, INVOCATION, JOURNAL, Json
from sangam.components.kfp_entrypoint.members import EXECUTOR, MEMBERS, Member, parse_members
from sangam.components.kfp_entrypoint.progress import PROGRESS, Progress, is_complete, outputs
from sangam.components.record.journal import Journal
from sangam.components.record.measuring import measured
from sangam.components.record.run import Observer
from sangam.schemas.host import gpus
from sangam.schemas.host.needless_imports import leave_out_needless_of_tfx

_LOG = logging.getLogger(__name__)
_MOUNT, _STORAGE = "/gcs/", "gs://"
_NOISY = ("apache_beam", "tensorflow_model_analysis")
"""Loggers that write dozens of lines on missing or unneeded packages."""


def main(arguments: Sequence[str]) -> None:
    """Runs the executor of a step, or the executors of several steps, one after another."""
    from absl import logging as absl_logging

    absl_logging.use_absl_handler()
    absl_logging.set_verbosity(absl_logging.INFO)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(EXECUTOR, dest="executor")
    which.add_argument(MEMBERS, type=parse_members, dest="members")
    parser.add_argument(INVOCATION, required=True, type=json.loads, dest="invocation")
    parser.add_argument(PROGRESS, type=Path, dest="progress")
    parser.add_argument(INPUTS_SPEC, default={}, type=json.loads, dest="inputs_spec")
    parser.add_argument(JOURNAL, type=Path, dest="journal")
    given, beam_args = parser.parse_known_args(arguments)
    observers = [Journal(file=given.journal)] if given.journal else []
    if given.members:
        executor_output = run_members(given.members, given.invocation, beam_args, Progress(given.progress), observers)
    else:
        # The file has the name of the task, which is that of its only step.
        with measured(given.journal.name if given.journal else "", observers) as ended:
            executor_output = run_executor(given.executor, given.invocation, given.inputs_spec, beam_args)
            ended.state = "ran"
    file = Path(given.invocation["outputs"]["outputFile"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(executor_output), encoding="utf-8")


def run_members(
    members: Sequence[Member],
    executor_input: Json,
    beam_args: Sequence[str],
    progress: Progress,
    observers: Sequence[Observer] = (),
) -> Json:
    """Runs the executors of steps that share a process; returns the ExecutorOutput of their task.

    Steps that an earlier try has completed are left out.
    """
    made = progress.made(members, executor_input)
    for member in members:
        if is_complete(member.step, made):
            _LOG.info("step=%s event=completed_before", member.step)
            continue
        _LOG.info("step=%s", member.step)
        own = member.executor_input(executor_input, made)
        with measured(member.step, observers) as ended:
            written = run_executor(member.executor, own, member.inputs_spec, beam_args)
            progress.end(member.step, own, written)
            ended.state = "ran"
        made |= outputs(member.step, written)
    return {"artifacts": {name: {"artifacts": [artifact]} for name, artifact in made.items()}}


def run_executor(class_path: str, executor_input: Json, inputs_spec: Json, beam_args: Sequence[str]) -> Json:
    """Runs an executor; returns its ExecutorOutput.

    Args:
        class_path: path of the executor's class, with its module.
        executor_input: ExecutorInput with paths for URIs, and with the types of all artifacts.
        inputs_spec: input spec of the component, with the types of its parameters.
        beam_args: rest of the command line.
    """
    is_on_storage = "--runner=DataflowRunner" in beam_args
    if is_on_storage:
        executor_input = _replaced(executor_input, _MOUNT, _STORAGE)
    leave_out_needless_of_tfx()
    gpus.hide()
    from tfx.utils import import_utils

    from sangam.components.kfp_entrypoint.artifacts import Artifacts

    artifacts = Artifacts()
    inputs = artifacts.read(executor_input["inputs"].get("artifacts", {}))
    made = artifacts.read(executor_input["outputs"].get("artifacts", {}))
    executor_class = import_utils.import_class_by_path(class_path)
    _LOG.info("executor=%s", class_path)
    context = _context(executor_class, executor_input["outputs"]["outputFile"], list(beam_args))
    values = executor_input["inputs"].get("parameterValues", {})
    executor_class(context).Do(inputs, made, parameters(values, inputs_spec))
    written = {"artifacts": artifacts.written(made)}
    return _replaced(written, _STORAGE, _MOUNT) if is_on_storage else written


def _replaced(node: Any, start: str, by: str) -> Any:
    """Returns JSON with the prefix of each text replaced: Dataflow's workers need URIs for Vertex AI's mounts."""
    if isinstance(node, dict):
        return {key: _replaced(value, start, by) for key, value in node.items()}
    if isinstance(node, list):
        return [_replaced(value, start, by) for value in node]
    return by + node.removeprefix(start) if isinstance(node, str) and node.startswith(start) else node


def parameters(values: Json, inputs_spec: Json) -> Json:
    """Returns the parameters; numbers are floats in JSON of protobuf, unless they are declared as integers."""
    declared = inputs_spec.get("parameters", {})
    integers = {name for name, spec in declared.items() if spec.get("parameterType") == "NUMBER_INTEGER"}
    return {
        name: int(value) if name in integers else float(value) if type(value) is int else value
        for name, value in values.items()
    }


def _context(executor_class: Any, output_file: str, beam_args: list[str]) -> Any:
    folder = os.path.dirname(output_file)
    common = {"unique_id": os.path.basename(folder), "tmp_dir": os.path.join(folder, ".temp")}
    # Only an executor that uses Beam has imported it.
    beam = sys.modules.get("tfx.dsl.components.base.base_beam_executor")
    if beam is not None and issubclass(executor_class, beam.BaseBeamExecutor):
        return beam.BaseBeamExecutor.Context(beam_pipeline_args=beam_args, **common)
    from tfx.dsl.components.base import base_executor

    return base_executor.BaseExecutor.Context(extra_flags=beam_args, **common)


if __name__ == "__main__":
    main(sys.argv[1:])

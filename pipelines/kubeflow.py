"""Compiles the DAG to a KFP v2 pipeline: one YAML file, spec 2.1."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tfx import v1 as tfx
from tfx.orchestration.kubeflow.v2 import pipeline_builder

from pipelines.pipeline import Placement, build
from schemas.data import DayLogs
from schemas.spec import Spec

CONTAINER_ENVIRONMENT = {"TF_USE_LEGACY_KERAS": "1"}
"""Every process needs it before it imports TensorFlow."""

UNCACHED = frozenset({"example_gen", "evaluator", "infra_validator", "pusher"})
"""Steps whose result depends on what lies outside the pipeline: the date, the log files, the last blessed model, how
busy the machine is, the pushed versions. Locally, drivers bring that into the cache key; KFP runs no drivers and would
repeat old results."""

_DATE, _DATA_ROOT, _PIPELINE_ROOT = "date", "data_root", "pipeline_root"


@dataclass(frozen=True)
class Target:
    """What a compiled pipeline runs in, and the defaults of its parameters.

    Attributes:
        image: container image of every step.
        trainer_image: of the trainer alone; `image` when empty.
        pipeline_root: default folder of blessings and pushed models.
        data_root: default folder of the logs.
        date: default of `date`; empty means yesterday (UTC) at the time of the run. Only for logs by day.
        git_commit: of the code that was compiled; empty if it is not known.
    """

    image: str
    trainer_image: str
    pipeline_root: str
    data_root: str
    date: str = ""
    git_commit: str = ""


def compile_pipeline(spec: Spec, target: Target) -> str:
    """Returns the pipeline's YAML. Logs by day make `date` a parameter; `data_root` and `pipeline_root` always are."""
    defaults = {_DATA_ROOT: target.data_root, _PIPELINE_ROOT: target.pipeline_root}
    if isinstance(spec.data, DayLogs):
        defaults[_DATE] = target.date
    placement = Placement(
        date=_parameter(_DATE) if _DATE in defaults else "",
        data_root=_parameter(_DATA_ROOT),
        pipeline_root=_parameter(_PIPELINE_ROOT),
        git_commit=target.git_commit,
    )
    config = tfx.orchestration.experimental.KubeflowV2DagRunnerConfig(
        default_image={
            # Under any other key TFX falls back to its own public image, with a warning only.
            pipeline_builder.DEFAULT_IMAGE_PATH_KEY: target.image,
            "trainer": target.trainer_image or target.image,
        },
        use_pipeline_spec_2_1=True,
    )
    runner = tfx.orchestration.experimental.KubeflowV2DagRunner(config)
    job = runner.run(build(spec, placement), write_out=False)
    compiled = finish(job["pipelineSpec"], defaults)
    return yaml.dump(compiled, Dumper=_Dumper, sort_keys=True, width=120)


def write_compiled(text: str, output: Path) -> None:
    """Writes a compiled pipeline, whole or not at all."""
    output.parent.mkdir(parents=True, exist_ok=True)
    written = output.with_name(f".{output.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(output)


def finish(ir: dict[str, Any], defaults: dict[str, str]) -> dict[str, Any]:
    """Returns TFX's pipeline spec with what TFX leaves out: defaults, environment, task names that run, true caching.

    Args:
        ir: the `pipelineSpec` of TFX's compiler.
        defaults: of every parameter, which TFX drops.
    """
    parameters = ir["root"]["inputDefinitions"]["parameters"]
    parameters = {name: {**declared, "defaultValue": defaults[name]} for name, declared in parameters.items()}
    executors = {
        label: {**executor, "container": _with_environment(executor["container"])}
        for label, executor in ir["deploymentSpec"]["executors"].items()
    }
    tasks = {_task_name(name): _renamed(_with_caching(name, task)) for name, task in ir["root"]["dag"]["tasks"].items()}
    root = {**ir["root"], "dag": {**ir["root"]["dag"], "tasks": tasks}, "inputDefinitions": {"parameters": parameters}}
    return {**ir, "root": root, "deploymentSpec": {**ir["deploymentSpec"], "executors": executors}}


def _parameter(name: str) -> Any:
    return tfx.dsl.experimental.RuntimeParameter(name=name, ptype=str)


def _with_environment(container: dict[str, Any]) -> dict[str, Any]:
    added = [{"name": name, "value": value} for name, value in sorted(CONTAINER_ENVIRONMENT.items())]
    return {**container, "env": [*container.get("env", []), *added]}


def _with_caching(node: str, task: dict[str, Any]) -> dict[str, Any]:
    return {**task, "cachingOptions": {} if node in UNCACHED else {"enableCache": True}}


def _task_name(node: str) -> str:
    """Returns a task's name as Argo, which runs KFP's pipelines, allows it: [a-zA-Z0-9][-a-zA-Z0-9]*."""
    return node.replace("_", "-")


def _renamed(task: dict[str, Any]) -> dict[str, Any]:
    renamed = {**task, "taskInfo": {**task["taskInfo"], "name": _task_name(task["taskInfo"]["name"])}}
    if "dependentTasks" in task:
        renamed["dependentTasks"] = [_task_name(name) for name in task["dependentTasks"]]
    if "artifacts" in task.get("inputs", {}):
        artifacts = {key: _from_renamed(source) for key, source in task["inputs"]["artifacts"].items()}
        renamed["inputs"] = {**task["inputs"], "artifacts": artifacts}
    return renamed


def _from_renamed(source: dict[str, Any]) -> dict[str, Any]:
    output = source["taskOutputArtifact"]
    return {"taskOutputArtifact": {**output, "producerTask": _task_name(output["producerTask"])}}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such, so that people can read the file and its changes."""


def _represent_text(dumper: _Dumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)

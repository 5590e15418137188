"""Runs a compiled KFP v2 pipeline without a cluster: each task as a process, with the command of its container.

It does what the backend's driver and launcher do: orders the tasks, fills parameters and artifacts into an
ExecutorInput, puts that into the container's command, and reads the outputs from the file that the task writes.
"""

import graphlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TASK_TIMEOUT_S = 600
_LOG_TAIL_CHARS = 3000
_PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\[['\"](.+?)['\"]\]\}\}")
_ARTIFACT = re.compile(r"\{\{\$\.(inputs|outputs)\.artifacts\[['\"](.+?)['\"]\]\.(?:uri|path)\}\}")

ArtifactJson = dict[str, Any]


class TaskFailed(Exception):
    """A task whose command ended with another code than 0; the text ends with the tail of its log."""


@dataclass(frozen=True)
class Task:
    """One task of the compiled DAG, with what it refers to looked up.

    Attributes:
        name: of the task.
        spec: `root.dag.tasks.<name>`.
        component: the task's component.
        container: its image, command, arguments and environment.
    """

    name: str
    spec: dict[str, Any]
    component: dict[str, Any]
    container: dict[str, Any]


def run_compiled(path: Path, folder: Path, parameters: Mapping[str, str]) -> dict[str, dict[str, ArtifactJson]]:
    """Runs every task and returns their output artifacts, by task and key.

    Args:
        path: file that `sangam compile` wrote.
        folder: for artifacts and logs.
        parameters: values of the pipeline's parameters; the rest take their defaults.

    Raises:
        TaskFailed: and no later task is run.
    """
    ir = yaml.safe_load(path.read_text())
    values = parameter_values(ir, parameters)
    produced: dict[str, dict[str, ArtifactJson]] = {}
    for name in task_order(ir):
        spec = ir["root"]["dag"]["tasks"][name]
        component = ir["components"][spec["componentRef"]["name"]]
        container = ir["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
        produced[name] = _run_task(Task(name, spec, component, container), folder / name, values, produced)
    return produced


def parameter_values(ir: dict[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Returns the value of every parameter: the given one, or its default.

    Raises:
        ValueError: for a given parameter that the pipeline has not, and for one without any value.
    """
    declared = ir["root"].get("inputDefinitions", {}).get("parameters", {})
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise ValueError(f"unknown parameters {unknown}; declared: {sorted(declared)}")
    values = {name: given.get(name, parameter.get("defaultValue")) for name, parameter in declared.items()}
    missing = sorted(name for name, value in values.items() if value is None)
    if missing:
        raise ValueError(f"parameters without a value: {missing}")
    return values


def task_order(ir: dict[str, Any]) -> list[str]:
    """Returns the tasks' names, each after those whose artifacts it takes and those it waits for."""
    needs = {}
    for name, task in ir["root"]["dag"]["tasks"].items():
        sources = task.get("inputs", {}).get("artifacts", {}).values()
        needs[name] = {source["taskOutputArtifact"]["producerTask"] for source in sources}
        needs[name].update(task.get("dependentTasks", []))
    return list(graphlib.TopologicalSorter(needs).static_order())


def _run_task(
    task: Task, folder: Path, values: Mapping[str, str], produced: Mapping[str, dict[str, ArtifactJson]]
) -> dict[str, ArtifactJson]:
    folder.mkdir(parents=True)
    outputs = {
        key: {"name": f"{task.name}/{key}", "type": declared["artifactType"], "uri": str(folder / key), "metadata": {}}
        for key, declared in task.component.get("outputDefinitions", {}).get("artifacts", {}).items()
    }
    output_file = folder / "executor_output.json"
    executor_input = {
        "inputs": {
            "parameterValues": _parameters(task, values),
            "artifacts": {key: {"artifacts": [artifact]} for key, artifact in _inputs(task, produced).items()},
        },
        "outputs": {
            "artifacts": {key: {"artifacts": [artifact]} for key, artifact in outputs.items()},
            "outputFile": str(output_file),
        },
    }
    _run_container(task, executor_input, folder / "log.txt")
    written = json.loads(output_file.read_text()).get("artifacts", {})
    for key, artifact in outputs.items():
        for changed in written.get(key, {}).get("artifacts", []):
            artifact.update({field: value for field, value in changed.items() if field != "name"})
    return outputs


def _parameters(task: Task, values: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for name, source in task.spec.get("inputs", {}).get("parameters", {}).items():
        if "componentInputParameter" in source:
            found[name] = values[source["componentInputParameter"]]
        else:
            found[name] = source["runtimeValue"]["constant"]
    return found


def _inputs(task: Task, produced: Mapping[str, dict[str, ArtifactJson]]) -> dict[str, ArtifactJson]:
    sources = task.spec.get("inputs", {}).get("artifacts", {})
    references = {key: source["taskOutputArtifact"] for key, source in sources.items()}
    return {key: produced[found["producerTask"]][found["outputArtifactKey"]] for key, found in references.items()}


def _run_container(task: Task, executor_input: dict[str, Any], log: Path) -> None:
    words = [*task.container["command"], *task.container.get("args", [])]
    command = [substituted(word, executor_input) for word in words]
    if command[0] in ("python", "python3"):
        command[0] = sys.executable
    environment = os.environ | {entry["name"]: entry["value"] for entry in task.container.get("env", [])}
    with log.open("wb") as file:
        done = subprocess.run(
            command, check=False, env=environment, stdout=file, stderr=subprocess.STDOUT, timeout=TASK_TIMEOUT_S
        )
    if done.returncode:
        tail = log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]
        raise TaskFailed(f"{task.name}: exit code {done.returncode}; log {log} ends with:\n{tail}")


def substituted(word: str, executor_input: dict[str, Any]) -> str:
    """Returns a word of a container's command with KFP's placeholders filled in."""

    def artifact_uri(match: re.Match[str]) -> str:
        return str(executor_input[match[1]]["artifacts"][match[2]]["artifacts"][0]["uri"])

    def parameter(match: re.Match[str]) -> str:
        return str(executor_input["inputs"]["parameterValues"][match[1]])

    word = word.replace("{{$}}", json.dumps(executor_input))
    return _ARTIFACT.sub(artifact_uri, _PARAMETER.sub(parameter, word))

"""Runs a compiled KFP v2 pipeline: each task as a process, with the command of its container; tests/cluster makes pods.

It does what the open-source backend's driver, Argo and launcher do: orders the tasks, gives out artifacts' addresses in
its store, fills parameters and artifacts into an ExecutorInput, puts that into the container's command, sets the
variables of the container and of its Secrets, tries again, and reads the outputs from the file that the task writes. As
that backend it tells no types of input artifacts, and adds an output for the log.
"""

import copy
import graphlib
import json
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.paths import REPOSITORY

STORE = "minio://mlpipeline/v2/artifacts"
TASK_TIMEOUT_S = 600
PARALLEL_TASKS = 2
_LOG_TAIL_CHARS = 3000
_PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\[['\"](.+?)['\"]\]\}\}")
_ARTIFACT = re.compile(r"\{\{\$\.(inputs|outputs)\.artifacts\[['\"](.+?)['\"]\]\.(?:uri|path)\}\}")
_CREATE_TIME = "{{$.pipeline_job_create_time_utc}}"

Start = Callable[[Sequence[str], Mapping[str, str], Path, float], int]
"""Runs a command with variables and a log, within seconds, and returns its exit code."""
ArtifactJson = dict[str, Any]
Produced = dict[str, dict[str, ArtifactJson]]


def as_process(words: Sequence[str], environment: Mapping[str, str], log: Path, timeout_s: float) -> int:
    """Runs a command to its end and returns its exit code."""
    with log.open("wb") as file:
        done = subprocess.run(
            words,
            check=False,
            cwd=REPOSITORY,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
    return done.returncode


class TaskFailed(Exception):
    """A task whose command ended with another code than 0; the text ends with the tail of its log."""

    def __init__(self, task: str, code: int, log: str):
        self.code, self.log = code, log
        super().__init__(f"{task}: exit code {code}; its log ends with:\n{log[-_LOG_TAIL_CHARS:]}")


@dataclass(frozen=True)
class Backend:
    """What the backend knows beside the file.

    Attributes:
        folder: for logs and what launchers write; stands for the pods' disks.
        secrets: values of Secrets, by name and key.
        created: when the run was created; empty with Kubeflow Pipelines 2.16.1, which does not tell.
        run_id: of the run.
        tries: pods of a task, by its name.
        policy: Argo's for retries: `OnFailure` with Kubeflow Pipelines 2.16.1, `OnError`, of lost pods, with 2.17.
        start: how a command is run.
    """

    folder: Path
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    created: str = ""
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    tries: dict[str, int] = field(default_factory=dict)
    policy: Literal["OnFailure", "OnError"] = "OnFailure"
    start: Start = as_process

    def attempt(self, task: "Task", executor_input: dict[str, Any], folder: Path) -> None:
        """Runs a task's command once.

        Args:
            task: of the DAG.
            executor_input: what its placeholders stand for.
            folder: of this attempt; `log.txt` in it gets what the command prints.

        Raises:
            TaskFailed: when it ends with another code than 0.
        """
        command, log = container_command(task, executor_input), folder / "log.txt"
        assert command[0] == "python"
        # This Python for the image's.
        code = self.start([sys.executable, *command[1:]], container_environment(task, self), log, TASK_TIMEOUT_S)
        if code:
            raise TaskFailed(task.name, code, log.read_text(errors="replace"))


@dataclass(frozen=True)
class RecordingBackend(Backend):
    """Keeps the command of every task, and lets it succeed."""

    commands: dict[str, list[str]] = field(default_factory=dict)

    def attempt(self, task: "Task", executor_input: dict[str, Any], folder: Path) -> None:
        self.commands[task.name] = container_command(task, executor_input)
        (folder / "output_metadata.json").write_text("{}")


@dataclass(frozen=True)
class Compiled:
    """A compiled file, taken apart: the pipeline spec, and what is Kubernetes' alone, by executor."""

    ir: dict[str, Any]
    platform: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One task of the compiled DAG, with what it refers to looked up.

    Attributes:
        name: of the task.
        spec: `root.dag.tasks.<name>`.
        component: the task's component.
        container: its image, command, arguments and environment.
        platform: its executor's part of the second document.
    """

    name: str
    spec: dict[str, Any]
    component: dict[str, Any]
    container: dict[str, Any]
    platform: dict[str, Any]


def read_compiled(text: str) -> Compiled:
    """Takes a compiled file apart."""
    ir, *rest = yaml.safe_load_all(text)
    platforms = rest[0]["platforms"]["kubernetes"]["deploymentSpec"]["executors"] if rest else {}
    return Compiled(ir, platforms)


def run_compiled(path: Path, parameters: Mapping[str, str], backend: Backend) -> Produced:
    """Runs every task and returns their output artifacts, by task and key.

    Args:
        path: file that `sangam compile` wrote.
        parameters: values of the pipeline's parameters; the rest take their defaults.
        backend: what it knows.

    Raises:
        TaskFailed: and no later task is run.
    """
    compiled = read_compiled(path.read_text())
    values = parameter_values(compiled.ir, parameters)
    produced: Produced = {}
    order = _sorter(compiled.ir)
    order.prepare()
    running: dict[Future[dict[str, ArtifactJson]], str] = {}
    with ThreadPoolExecutor(PARALLEL_TASKS) as pool:
        while order.is_active():
            for name in order.get_ready():
                running[pool.submit(_run_task, task_of(compiled, name), values, produced, backend)] = name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                produced[name] = future.result()
                order.done(name)
    return produced


def task_of(compiled: Compiled, name: str) -> Task:
    """Returns a task with what it refers to."""
    spec = compiled.ir["root"]["dag"]["tasks"][name]
    component = compiled.ir["components"][spec["componentRef"]["name"]]
    label = component["executorLabel"]
    container = compiled.ir["deploymentSpec"]["executors"][label]["container"]
    return Task(name, spec, component, container, compiled.platform.get(label, {}))


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
    return list(_sorter(ir).static_order())


def _sorter(ir: dict[str, Any]) -> "graphlib.TopologicalSorter[str]":
    needs = {}
    for name, task in ir["root"]["dag"]["tasks"].items():
        sources = task.get("inputs", {}).get("artifacts", {}).values()
        needs[name] = {source["taskOutputArtifact"]["producerTask"] for source in sources}
        needs[name].update(task.get("dependentTasks", []))
    return graphlib.TopologicalSorter(needs)


def _run_task(
    task: Task, values: Mapping[str, str], produced: Mapping[str, dict[str, ArtifactJson]], backend: Backend
) -> dict[str, ArtifactJson]:
    executor_input = executor_input_of(task, values, produced, backend)
    outputs = {key: found["artifacts"][0] for key, found in executor_input["outputs"]["artifacts"].items()}
    for attempt in range(task.spec.get("retryPolicy", {}).get("maxRetryCount", 0) + 1):
        # Every try is a new pod with the same command.
        pod = backend.folder / task.name / str(attempt)
        pod.mkdir(parents=True)
        executor_input["outputs"]["outputFile"] = str(pod / "output_metadata.json")
        backend.tries[task.name] = attempt + 1
        try:
            backend.attempt(task, executor_input, pod)
        except TaskFailed as failed:
            failure = failed
            if backend.policy == "OnError":
                break
        else:
            return _merged(task.name, outputs, _executor_output((pod / "output_metadata.json").read_text()))
    raise failure


def executor_input_of(
    task: Task, values: Mapping[str, str], produced: Mapping[str, dict[str, ArtifactJson]], backend: Backend
) -> dict[str, Any]:
    """Returns what the driver makes for a task."""
    folder = f"{STORE}/pipeline/{backend.run_id}/{task.name}/{uuid.uuid4()}"
    declared = task.component.get("outputDefinitions", {}).get("artifacts", {})
    types = {key: artifact["artifactType"] for key, artifact in declared.items()}
    types["executor-logs"] = {"schemaTitle": "system.Artifact"}
    outputs = {key: {"type": kind, "uri": f"{folder}/{key}", "metadata": {}} for key, kind in types.items()}
    return {
        "inputs": {
            "parameterValues": _parameters(task, values, backend),
            "artifacts": {key: {"artifacts": [artifact]} for key, artifact in _inputs(task, produced).items()},
        },
        "outputs": {
            "artifacts": {key: {"artifacts": [artifact]} for key, artifact in outputs.items()},
            "outputFile": "",
        },
    }


_ids = iter(range(1, 1 << 30))
_ids_lock = threading.Lock()


def _executor_output(text: str) -> dict[str, Any]:
    """Reads a task's output file as the launcher does: as an ExecutorOutput, without null and NaN in metadata.

    (backend/src/v2/component/launcher_v2.go, getExecutorOutputFile; metadata/converter.go, StructValueToMLMDValue.)
    """
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2

    def refuse(name: str) -> None:
        raise ValueError(f"the launcher refuses {name}: {text}")

    written: dict[str, Any] = json.loads(text, parse_constant=refuse)
    json_format.ParseDict(written, pipeline_spec_pb2.ExecutorOutput())
    for found in written.get("artifacts", {}).values():
        for artifact in found["artifacts"]:
            assert None not in artifact.get("metadata", {}).values(), artifact
    return written


def _merged(task: str, outputs: dict[str, ArtifactJson], written: dict[str, Any]) -> dict[str, ArtifactJson]:
    """Returns the artifacts as ML Metadata holds them: a number for a name, no type, and a name to show."""
    recorded = {}
    for key, artifact in outputs.items():
        found = written.get("artifacts", {}).get(key, {}).get("artifacts", [{}])[0]
        uri = found.get("uri", artifact["uri"])
        # The launcher of the backend refuses input artifacts of no store that it knows.
        assert uri.startswith(STORE), f"{task}/{key}: {uri}"
        with _ids_lock:
            name = str(next(_ids))
        metadata = found.get("metadata", {})
        if artifact["type"].get("schemaTitle") == "system.Metrics":
            # Launchers without ML Metadata refuse anything else (launcher_v2.go, uploadOutputArtifacts).
            assert all(isinstance(value, float) for value in metadata.values()), metadata
        metadata = {"display_name": key} | metadata
        recorded[key] = {"name": name, "type": {"instanceSchema": ""}, "uri": uri, "metadata": metadata}
    return recorded


def _parameters(task: Task, values: Mapping[str, str], backend: Backend) -> dict[str, Any]:
    found = {}
    for name, source in task.spec.get("inputs", {}).get("parameters", {}).items():
        if "componentInputParameter" in source:
            found[name] = values[source["componentInputParameter"]]
        else:
            constant = source["runtimeValue"]["constant"]
            found[name] = backend.created if constant == _CREATE_TIME else constant
    return found


def _inputs(task: Task, produced: Mapping[str, dict[str, ArtifactJson]]) -> dict[str, ArtifactJson]:
    sources = task.spec.get("inputs", {}).get("artifacts", {})
    references = {key: source["taskOutputArtifact"] for key, source in sources.items()}
    return {
        key: copy.deepcopy(produced[found["producerTask"]][found["outputArtifactKey"]])
        for key, found in references.items()
    }


def container_command(task: Task, executor_input: dict[str, Any]) -> list[str]:
    """Returns the words of a task's command, with the placeholders filled in."""
    words = [*task.container["command"], *task.container.get("args", [])]
    return [substituted(word, executor_input) for word in words]


def container_environment(task: Task, backend: Backend) -> dict[str, str]:
    """Returns what a container sees: its own variables and those of its Secrets, and little else of this machine."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment |= {entry["name"]: entry["value"] for entry in task.container.get("env", [])}
    for secret in task.platform.get("secretAsEnv", []):
        for key in secret["keyToEnv"]:
            environment[key["envVar"]] = backend.secrets[secret["secretName"]][key["secretKey"]]
    return environment


def substituted(word: str, executor_input: dict[str, Any]) -> str:
    """Returns a word of a container's command with KFP's placeholders filled in."""

    def artifact_uri(match: re.Match[str]) -> str:
        return str(executor_input[match[1]]["artifacts"][match[2]]["artifacts"][0]["uri"])

    def parameter(match: re.Match[str]) -> str:
        return str(executor_input["inputs"]["parameterValues"][match[1]])

    word = word.replace("{{$}}", json.dumps(executor_input))
    return _ARTIFACT.sub(artifact_uri, _PARAMETER.sub(parameter, word))

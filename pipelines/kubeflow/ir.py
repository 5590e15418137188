"""Completes TFX's pipeline spec: parts that TFX leaves out, and the settings of the section `cluster`."""

from typing import Any, cast

import yaml

from sangam.components.kfp_entrypoint.invocation import CREATED, ROOT, SYSTEM
from sangam.pipelines.kubeflow.steps import caching, container, retry_policy
from sangam.pipelines.kubeflow.target import Target
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import StepName
from sangam.schemas.spec.data import DayLogs

DATE, DATA_ROOT, PIPELINE_ROOT = "date", "data_root", "pipeline_root"
"""The pipeline's parameters."""
CREATE_TIME = "{{$.pipeline_job_create_time_utc}}"
"""Placeholder of the run's creation time: on Vertex AI, and in backends with pull request 13474 of kubeflow/pipelines.
Earlier backends do not replace it (issue 12616); 2.16.1 replaces it by an empty text."""

Json = dict[str, Any]


def finish(ir: Json, spec: Spec, target: Target) -> Json:
    """Returns the pipeline spec with defaults, images, resources, entry points, retries, caching and valid task names.

    Args:
        ir: the `pipelineSpec` of TFX's compiler; not changed.
        spec: spec of the ranker.
        target: target of the pipeline.
    """
    defaults = {DATE: target.date, DATA_ROOT: target.data_root, PIPELINE_ROOT: target.pipeline_root}
    parameters = ir["root"]["inputDefinitions"]["parameters"]
    # TFX drops the defaults.
    parameters = {name: {**parameter, "defaultValue": defaults[name]} for name, parameter in parameters.items()}
    executors = {
        label: {**executor, "container": container(executor["container"], steps_by_label(ir)[label], spec, target)}
        for label, executor in ir["deploymentSpec"]["executors"].items()
    }
    components = {
        name: _with_parameters(_with_system_types(component), _added(name, spec))
        for name, component in ir["components"].items()
    }
    tasks = {task_name(name): _task(name, task, spec, target) for name, task in ir["root"]["dag"]["tasks"].items()}
    root = {**ir["root"], "dag": {**ir["root"]["dag"], "tasks": tasks}, "inputDefinitions": {"parameters": parameters}}
    deployment = {**ir["deploymentSpec"], "executors": executors}
    return {**ir, "components": components, "root": root, "deploymentSpec": deployment}


def steps_by_label(ir: Json) -> dict[str, StepName]:
    """Returns the step of each executor."""
    return {component["executorLabel"]: cast(StepName, name) for name, component in ir["components"].items()}


def task_name(step: str) -> str:
    """Returns a task's name in the form that Argo, which runs KFP's pipelines, allows: [a-zA-Z0-9][-a-zA-Z0-9]*."""
    return step.replace("_", "-")


def _added(name: str, spec: Spec) -> dict[str, Json]:
    """Returns the parameters that the entry point needs beside TFX's, and the sources of their values.

    They do not include the run's id, which would make every cache key unique.
    """
    added: dict[str, Json] = {ROOT: {"componentInputParameter": PIPELINE_ROOT}}
    has_date = name == "example_gen" or (name == "infra_validator" and spec.skew_gates)
    if has_date and isinstance(spec.logs, DayLogs):
        added[CREATED] = {"runtimeValue": {"constant": CREATE_TIME}}
    return added


def _with_parameters(component: Json, added: dict[str, Json]) -> Json:
    inputs = component.get("inputDefinitions", {})
    types = {name: {"parameterType": "STRING"} for name in added}
    return {**component, "inputDefinitions": {**inputs, "parameters": {**inputs.get("parameters", {}), **types}}}


def _with_system_types(component: Json) -> Json:
    """Returns a component whose outputs of Kubeflow's own types have these by title, as the SDK's compiler writes them.

    TFX writes the schema of a type of one's own.
    """
    outputs = component.get("outputDefinitions", {})
    if "artifacts" not in outputs:
        return component
    artifacts = {
        name: {**found, "artifactType": _type(found["artifactType"])} for name, found in outputs["artifacts"].items()
    }
    return {**component, "outputDefinitions": {**outputs, "artifacts": artifacts}}


def _type(artifact_type: Json) -> Json:
    title = yaml.safe_load(artifact_type.get("instanceSchema", "{}")).get("title", "")
    return {"schemaTitle": title, "schemaVersion": "0.0.1"} if title.startswith(SYSTEM) else artifact_type


def _task(name: str, task: Json, spec: Spec, target: Target) -> Json:
    step = spec.cluster.step(cast(StepName, name))
    inputs = task.get("inputs", {})
    finished = {
        **task,
        "taskInfo": {**task["taskInfo"], "name": task_name(task["taskInfo"]["name"])},
        "cachingOptions": caching(name, step),
        "inputs": {**inputs, "parameters": {**inputs.get("parameters", {}), **_added(name, spec)}},
    }
    if policy := retry_policy(cast(StepName, name), spec, target):
        finished["retryPolicy"] = policy
    if "dependentTasks" in task:
        finished["dependentTasks"] = [task_name(other) for other in task["dependentTasks"]]
    if "artifacts" in inputs:
        artifacts = {key: _from_renamed(source) for key, source in inputs["artifacts"].items()}
        finished["inputs"]["artifacts"] = artifacts
    return finished


def _from_renamed(source: Json) -> Json:
    output = source["taskOutputArtifact"]
    return {"taskOutputArtifact": {**output, "producerTask": task_name(output["producerTask"])}}

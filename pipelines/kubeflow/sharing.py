"""Merges small steps into one task: `cluster.share_processes` of a spec. The task has the name of the last step."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sangam.components.kfp_entrypoint.invocation import INPUTS_SPEC, INVOCATION
from sangam.components.kfp_entrypoint.members import EXECUTOR, MEMBERS, Member, qualified
from sangam.schemas.spec.cluster import StepName

_OPTIONS = 6
"""Number of arguments of TFX's command before Beam's: three options with their values."""

Json = dict[str, Any]


def share(ir: Json, groups: Iterable[Sequence[StepName]]) -> Json:
    """Returns TFX's pipeline spec with the steps of each group in one task; the argument is not changed.

    A task has the parameters and artifacts of its steps, prefixed with the step's name. It also outputs artifacts that
    other steps of the group read: later tasks and ML Metadata see them.
    """
    for group in groups:
        ir = _shared(ir, list(group))
    return ir


def _shared(ir: Json, group: list[str]) -> Json:
    last, components, tasks = group[-1], ir["components"], ir["root"]["dag"]["tasks"]
    labels = {name: components[name]["executorLabel"] for name in group}
    executors = ir["deploymentSpec"]["executors"]
    containers = {name: executors[labels[name]]["container"] for name in group}
    own = {
        **components[last],
        "inputDefinitions": {
            "parameters": _joined(group, components, "inputDefinitions", "parameters"),
            "artifacts": dict(_outer_artifacts(group, components, tasks)),
        },
        "outputDefinitions": {"artifacts": _joined(group, components, "outputDefinitions", "artifacts")},
    }
    container = {**containers[last], "args": _arguments(group, containers, tasks)}
    executor = {**executors[labels[last]], "container": container}
    gone = set(group) - {last}
    others = {label: found for label, found in executors.items() if label not in labels.values()}
    return {
        **ir,
        "components": {name: own if name == last else found for name, found in components.items() if name not in gone},
        "deploymentSpec": {
            **ir["deploymentSpec"],
            "executors": others | {labels[last]: executor},
        },
        "root": {**ir["root"], "dag": {**ir["root"]["dag"], "tasks": _tasks(group, tasks)}},
    }


def _joined(group: list[str], components: Json, side: str, kind: str) -> Json:
    return {
        qualified(step, name): found
        for step in group
        for name, found in components[step].get(side, {}).get(kind, {}).items()
    }


def _sources(task: Json) -> Json:
    found: Json = task.get("inputs", {}).get("artifacts", {})
    return {key: source["taskOutputArtifact"] for key, source in found.items()}


def _outer_artifacts(group: list[str], components: Json, tasks: Json) -> Iterator[tuple[str, Json]]:
    """Yields the inputs that come from other tasks."""
    for step in group:
        for key, source in _sources(tasks[step]).items():
            if source["producerTask"] not in group:
                yield qualified(step, key), components[step]["inputDefinitions"]["artifacts"][key]


def _arguments(group: list[str], containers: Json, tasks: Json) -> list[str]:
    """Returns the arguments of all steps as those of one command: MEMBERS has each step's executor and input spec."""
    members, inputs_spec = [], Json()
    for step in group:
        words = containers[step]["args"]
        given = dict(zip(words[:_OPTIONS:2], words[1:_OPTIONS:2], strict=True))
        own_spec = json.loads(given[INPUTS_SPEC])
        made = {key: source for key, source in _sources(tasks[step]).items() if source["producerTask"] in group}
        members.append(
            Member(
                step=step,
                executor=given[EXECUTOR],
                inputs_spec=own_spec,
                made_before={
                    key: qualified(source["producerTask"], source["outputArtifactKey"]) for key, source in made.items()
                },
            )
        )
        for kind, found in own_spec.items():
            outer = {name: each for name, each in found.items() if kind != "artifacts" or name not in made}
            named = {qualified(step, name): each for name, each in outer.items()}
            inputs_spec.setdefault(kind, {}).update(named)
    [beam_args] = {tuple(words) for step in group if (words := containers[step]["args"][_OPTIONS:])} or [()]
    text = json.dumps([member.model_dump(mode="json") for member in members])
    return [MEMBERS, text, INVOCATION, "{{$}}", INPUTS_SPEC, json.dumps(inputs_spec), *beam_args]


def _tasks(group: list[str], tasks: Json) -> Json:
    last = group[-1]
    inputs: Json = {"parameters": {}, "artifacts": {}}
    for step in group:
        for name, source in tasks[step].get("inputs", {}).get("parameters", {}).items():
            inputs["parameters"][qualified(step, name)] = source
        for key, source in tasks[step].get("inputs", {}).get("artifacts", {}).items():
            if source["taskOutputArtifact"]["producerTask"] not in group:
                inputs["artifacts"][qualified(step, key)] = source
    awaited = {other for step in group for other in tasks[step].get("dependentTasks", [])} - set(group)
    shared = {**tasks[last], "inputs": inputs, "dependentTasks": sorted(awaited)}
    found = {name: shared if name == last else task for name, task in tasks.items() if name not in group[:-1]}
    return {name: _renamed(task, group) for name, task in found.items()}


def _renamed(task: Json, group: list[str]) -> Json:
    """Returns a task that reads the group's outputs from the merged task."""
    last, changed = group[-1], dict(task)
    if "artifacts" in task.get("inputs", {}):
        artifacts = {key: _from_group(source, group) for key, source in task["inputs"]["artifacts"].items()}
        changed["inputs"] = {**task["inputs"], "artifacts": artifacts}
    if "dependentTasks" in task:
        changed["dependentTasks"] = sorted({last if other in group else other for other in task["dependentTasks"]})
    return changed


def _from_group(source: Json, group: list[str]) -> Json:
    output = source["taskOutputArtifact"]
    if output["producerTask"] not in group:
        return source
    key = qualified(output["producerTask"], output["outputArtifactKey"])
    return {"taskOutputArtifact": {**output, "producerTask": group[-1], "outputArtifactKey": key}}

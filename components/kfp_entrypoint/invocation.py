"""What the backend asks of a step, as JSON in TFX's command, and the same as TFX's executors can take it."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.kfp_entrypoint.uris import Places
from schemas.errors import UserError

INVOCATION, INPUTS_SPEC = "--json_serialized_invocation_args", "--json_serialized_inputs_spec_args"
"""Arguments of TFX's command: the ExecutorInput, and what inputs the component declares."""
ROOT, CREATED = "sangam_root", "sangam_created"
"""Parameters that the compiler adds for this entry point alone: the pipeline root, and when the run was created."""
_ADDED = frozenset({ROOT, CREATED})
_BACKENDS_OWN = frozenset({"executor-logs"})
"""Outputs that the backend adds where it publishes logs; TFX knows no artifact of that type."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """TFX's command, taken apart.

    Attributes:
        module: that `python -m` runs.
        arguments: of it.
    """

    module: str
    arguments: tuple[str, ...]

    def executor_input(self) -> Json:
        """Returns what the backend has filled in.

        Raises:
            UserError: if it has filled nothing in.
        """
        text = self.argument(INVOCATION)
        try:
            parsed = json.loads(text or "")
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise UserError(
                f"{INVOCATION}: holds no ExecutorInput (got '{(text or '')[:80]}'); this command is for a backend of "
                "Kubeflow Pipelines v2, which fills it in"
            )
        return parsed

    def argument(self, name: str) -> str | None:
        """Returns the value of an argument; None if it is not given."""
        pairs = dict(zip(self.arguments, self.arguments[1:], strict=False))
        return pairs.get(name)

    def with_executor_input(self, executor_input: Json) -> "Command":
        """Returns the command with another ExecutorInput."""
        place = self.arguments.index(INVOCATION) + 1
        text = json.dumps(executor_input)
        return Command(self.module, (*self.arguments[:place], text, *self.arguments[place + 1 :]))


def parse_command(words: Sequence[str]) -> Command:
    """Returns the command after `--`.

    Raises:
        UserError: if it is not `python -m MODULE ...`.
    """
    match list(words):
        case ["python" | "python3", "-m", module, *arguments]:
            return Command(module, tuple(arguments))
    raise UserError(f"command: is not `python -m MODULE ...` after `--` (got '{' '.join(words)[:80]}')")


def parameters(executor_input: Json) -> Json:
    """Returns the values of the step's parameters."""
    values: Json = executor_input.get("inputs", {}).get("parameterValues", {})
    return values


def localized(executor_input: Json, declared: Mapping[str, Any], places: Places, changed: Mapping[str, Any]) -> Json:
    """Returns the ExecutorInput as TFX's executors take it.

    Paths stand for URIs. Input artifacts have the types that the component declares: the open-source backend leaves
    them out (backend/src/v2/metadata/converter.go, toRuntimeArtifact), and TFX makes no artifact without.

    Args:
        executor_input: of the backend; not changed.
        declared: the component's inputs.
        places: of artifacts.
        changed: parameters with another value.
    """
    local = copy.deepcopy(executor_input)
    inputs, outputs = local.setdefault("inputs", {}), local.setdefault("outputs", {})
    values = {name: value for name, value in inputs.get("parameterValues", {}).items() if name not in _ADDED}
    inputs["parameterValues"] = values | dict(changed)
    for name, found in inputs.get("artifacts", {}).items():
        for artifact in found["artifacts"]:
            artifact["type"] = declared["artifacts"][name]["artifactType"]
    kept = {name: found for name, found in outputs.get("artifacts", {}).items() if name not in _BACKENDS_OWN}
    outputs["artifacts"] = kept
    for found in (*inputs.get("artifacts", {}).values(), *kept.values()):
        for artifact in found["artifacts"]:
            artifact["uri"] = places.path(artifact["uri"])
    return local


def globalized(executor_output: Json, places: Places) -> Json:
    """Returns the ExecutorOutput of TFX with the URIs that the backend gave."""
    result = copy.deepcopy(executor_output)
    for found in result.get("artifacts", {}).values():
        for artifact in found["artifacts"]:
            artifact["uri"] = places.uri(artifact["uri"])
    return result


def artifact_paths(executor_input: Json, side: str) -> dict[str, str]:
    """Returns the first address of every artifact of `inputs` or `outputs`, by name."""
    found = executor_input[side].get("artifacts", {})
    return {name: listed["artifacts"][0]["uri"] for name, listed in found.items() if listed["artifacts"]}

"""The backend's ExecutorInput in TFX's command, and its translation for TFX's executors."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sangam.components.kfp_entrypoint.uris import UriMapping
from sangam.schemas.errors import UserError

INVOCATION, INPUTS_SPEC = "--json_serialized_invocation_args", "--json_serialized_inputs_spec_args"
"""Arguments of TFX's command: the ExecutorInput, and the component's input spec."""
TFX_EXECUTORS, EXECUTORS = (
    "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor",
    f"{__package__}.executors",
)
"""The module that runs an executor in TFX's compiled pipelines, and Sangam's replacement."""
ROOT, CREATED = "sangam_root", "sangam_created"
"""Parameters that the compiler adds for this entry point: the pipeline root, and the run's creation time."""
RUN = "run"
"""Parameter for the run's id. It is compiled empty, and this entry point sets it."""
_ADDED = frozenset({ROOT, CREATED})
_BACKENDS_OWN = frozenset({"executor-logs"})
"""Outputs that the backend adds for its logs; TFX has no artifact of that type."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """TFX's command.

    Attributes:
        module: module that `python -m` runs.
        arguments: arguments of the module.
    """

    module: str
    arguments: tuple[str, ...]

    def executor_input(self) -> Json:
        """Returns the ExecutorInput that the backend has filled in.

        Raises:
            UserError: if it has not.
        """
        text = self.argument(INVOCATION)
        try:
            parsed = json.loads(text or "")
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise UserError(
                f"{INVOCATION}: is not an ExecutorInput (got '{(text or '')[:80]}'); run this command on a backend of "
                "Kubeflow Pipelines v2, which fills it in"
            )
        return parsed

    def argument(self, name: str) -> str | None:
        """Returns the value of an argument; None if it is not given."""
        pairs = dict(zip(self.arguments, self.arguments[1:], strict=False))
        return pairs.get(name)

    def with_executor_input(self, executor_input: Json) -> "Command":
        """Returns the command with another ExecutorInput."""
        index = self.arguments.index(INVOCATION) + 1
        text = json.dumps(executor_input)
        return Command(self.module, (*self.arguments[:index], text, *self.arguments[index + 1 :]))

    def with_arguments(self, *words: str) -> "Command":
        """Returns the command with more arguments."""
        return Command(self.module, (*self.arguments, *words))


def parse_command(words: Sequence[str]) -> Command:
    """Returns the command after `--`.

    Raises:
        UserError: if it is not `python -m MODULE ...`.
    """
    match list(words):
        case ["python" | "python3", "-m", module, *arguments]:
            return Command(module, tuple(arguments))
    raise UserError(f"command: after `--` is not `python -m MODULE ...` (got '{' '.join(words)[:80]}'); compile again")


def parameters(executor_input: Json) -> Json:
    """Returns the values of the step's parameters."""
    values: Json = executor_input.get("inputs", {}).get("parameterValues", {})
    return values


def localized(
    executor_input: Json, inputs_spec: Mapping[str, Any], uri_mapping: UriMapping, overrides: Mapping[str, Any]
) -> Json:
    """Returns the ExecutorInput for TFX's executors: with paths instead of URIs, and with types of input artifacts.

    The open-source backend leaves out the types (backend/src/v2/metadata/converter.go, toRuntimeArtifact), and TFX
    needs them. They are taken from the component's input spec.

    Args:
        executor_input: ExecutorInput of the backend; not changed.
        inputs_spec: input spec of the component.
        uri_mapping: mapping from URIs to paths.
        overrides: parameters to replace.
    """
    local = copy.deepcopy(executor_input)
    inputs, outputs = local.setdefault("inputs", {}), local.setdefault("outputs", {})
    values = {name: value for name, value in inputs.get("parameterValues", {}).items() if name not in _ADDED}
    inputs["parameterValues"] = values | dict(overrides)
    for name, artifact_list in inputs.get("artifacts", {}).items():
        for artifact in artifact_list["artifacts"]:
            artifact["type"] = inputs_spec["artifacts"][name]["artifactType"]
    kept = {
        name: artifact_list for name, artifact_list in outputs.get("artifacts", {}).items() if name not in _BACKENDS_OWN
    }
    outputs["artifacts"] = kept
    for artifact_list in (*inputs.get("artifacts", {}).values(), *kept.values()):
        for artifact in artifact_list["artifacts"]:
            artifact["uri"] = uri_mapping.path(artifact["uri"])
    return local


def globalized(executor_output: Json, uri_mapping: UriMapping) -> Json:
    """Returns TFX's ExecutorOutput with the backend's URIs instead of paths."""
    result = copy.deepcopy(executor_output)
    for artifact_list in result.get("artifacts", {}).values():
        for artifact in artifact_list["artifacts"]:
            artifact["uri"] = uri_mapping.uri(artifact["uri"])
    return result


def artifact_paths(executor_input: Json, side: str) -> dict[str, str]:
    """Returns the first URI or path of every artifact of `inputs` or `outputs`, by name."""
    by_name = executor_input[side].get("artifacts", {})
    return {
        name: artifact_list["artifacts"][0]["uri"]
        for name, artifact_list in by_name.items()
        if artifact_list["artifacts"]
    }

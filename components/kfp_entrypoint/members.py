"""Steps that share a process: each step's part of their task's ExecutorInput."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from sangam.components.kfp_entrypoint.invocation import Json

EXECUTOR, MEMBERS = "--executor_class_path", "--members"


class Member(BaseModel):
    """One step of a task.

    Attributes:
        step: name of the step.
        executor: path of the executor's class.
        inputs_spec: input spec of the component.
        made_before: inputs that an earlier step of the task writes, with the names of those outputs of the task.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: str
    executor: str
    inputs_spec: dict[str, Any]
    made_before: dict[str, str]

    def executor_input(self, task: Json, made: Mapping[str, Json]) -> Json:
        """Returns the step's part of its task's ExecutorInput.

        Args:
            task: ExecutorInput of the task.
            made: artifacts that earlier steps have written, by the names of the task's outputs.
        """
        inputs, outputs = task["inputs"], task["outputs"]
        declared = outputs["artifacts"]
        before = {
            key: {"artifacts": [{**declared[name]["artifacts"][0], **made[name]}]}
            for key, name in self.made_before.items()
        }
        return {
            "inputs": {
                "parameterValues": self._own(inputs.get("parameterValues", {})),
                "artifacts": self._own(inputs.get("artifacts", {})) | before,
            },
            "outputs": {"artifacts": self._own(declared), "outputFile": outputs["outputFile"]},
        }

    def _own(self, named: Json) -> Json:
        front = qualified(self.step, "")
        return {name.removeprefix(front): value for name, value in named.items() if name.startswith(front)}


def qualified(step: str, name: str) -> str:
    """Returns the name that a step's parameter or artifact has in a task of several steps."""
    return f"{step}__{name}"


def parse_members(text: str) -> list[Member]:
    """Returns the steps of a task, in order."""
    return TypeAdapter(list[Member]).validate_json(text)

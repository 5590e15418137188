"""Progress of a task of several steps: what the complete ones have made.

Another try, in the same pod or a new one, goes on after the last complete step. Errors of the run's folder are only
logged: they cost a repetition at most.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sangam.components.kfp_entrypoint.invocation import Json, artifact_paths
from sangam.components.kfp_entrypoint.members import Member, qualified
from sangam.schemas.host.files import write_whole

_LOG = logging.getLogger(__name__)
PROGRESS = "--progress"
"""Argument of a task of several steps: the folder of its progress."""


@dataclass(frozen=True)
class Progress:
    """The progress of one task of a run.

    Attributes:
        folder: folder of the task.
    """

    folder: Path

    def end(self, step: str, executor_input: Json, written: Json) -> None:
        """Records that a step is complete.

        Args:
            step: name of the step.
            executor_input: its part of the task's ExecutorInput.
            written: its ExecutorOutput.
        """
        self._write(step, json.dumps({"of": _digest(executor_input), "written": written}))

    def made(self, members: Sequence[Member], executor_input: Json) -> dict[str, Json]:
        """Returns the artifacts of the steps that need not run again, by the names of the task's outputs.

        Those are the first steps, as far as they have completed with the same inputs, parameters and outputs.
        """
        made: dict[str, Json] = {}
        for member in members:
            own = member.executor_input(executor_input, made)
            written = self._written(member.step, own)
            if written is None:
                break
            made |= outputs(member.step, written)
        return made

    def _written(self, step: str, executor_input: Json) -> Json | None:
        try:
            found = json.loads((self.folder / step).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        is_same = found["of"] == _digest(executor_input)
        has_outputs = all(Path(path).exists() for path in artifact_paths(executor_input, "outputs").values())
        written: Json = found["written"]
        return written if is_same and has_outputs else None

    def _write(self, name: str, text: str) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / name, text)
        except OSError as error:
            _LOG.error("event=progress_not_kept folder=%s reason=%r", self.folder, str(error))


def is_complete(step: str, made: Mapping[str, Json]) -> bool:
    """Returns whether a step is among those that have made artifacts."""
    return any(name.startswith(qualified(step, "")) for name in made)


def outputs(step: str, written: Json) -> dict[str, Json]:
    """Returns the artifacts of a step's ExecutorOutput by the names of its task's outputs."""
    return {qualified(step, key): found["artifacts"][0] for key, found in written["artifacts"].items()}


def _digest(executor_input: Json) -> str:
    # The file of outputs is the pod's.
    of = {**executor_input, "outputs": executor_input["outputs"]["artifacts"]}
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()

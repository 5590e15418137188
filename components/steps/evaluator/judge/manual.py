"""Records manual blessings in ML Metadata: person, run, time and reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.orchestration.portable.mlmd import execution_lib

EXECUTION_TYPE = "sangam.ManualBlessing"
PUSHED_MODEL = "pushed_model"
# mypy does not know the members of these enums.
_STATE: Any = mlmd.Execution
_ARTIFACT: Any = mlmd.Artifact


@dataclass(frozen=True)
class ManualBlessing:
    """A manual blessing; its attributes are the execution's properties.

    Attributes:
        reason: given by the person.
        who: the person.
        when: UTC, ISO 8601.
        run: id of the run whose gates were overridden.
    """

    reason: str
    who: str
    when: str
    run: str


@dataclass(frozen=True)
class Recorded:
    """A manual blessing in ML Metadata.

    Attributes:
        execution: ML Metadata's record.
        pushed: the artifact of the pushed version; None before a push.
    """

    blessing: ManualBlessing
    execution: Any
    pushed: Any


def find(handle: Any, run: str) -> Recorded | None:
    """Returns the manual blessing of a run, if there is one.

    Args:
        handle: TFX's open handle of ML Metadata.
        run: id.
    """
    for execution in handle.store.get_executions_by_type(EXECUTION_TYPE):
        if execution.properties["run"].string_value == run:
            properties = {name: execution.properties[name].string_value for name in ManualBlessing.__annotations__}
            outputs = execution_lib.get_output_artifacts(handle, execution.id)
            return Recorded(ManualBlessing(**properties), execution, next(iter(outputs.get(PUSHED_MODEL, [])), None))
    return None


def record(
    handle: Any, given: ManualBlessing, *, inputs: dict[str, Any], blessing: Any, contexts: Sequence[Any]
) -> Recorded:
    """Records a blessing in one transaction, as an execution that takes the inputs and outputs the blessing.

    Args:
        handle: TFX's open handle of ML Metadata.
        given: the person's decision.
        inputs: registered artifacts by key: the model and its evaluations.
        blessing: new artifact of type ModelBlessing.
        contexts: contexts of the run.
    """
    kind = mlmd.ExecutionType(name=EXECUTION_TYPE)
    for name in ManualBlessing.__annotations__:
        kind.properties[name] = mlmd.STRING
    execution = mlmd.Execution(
        type_id=handle.store.put_execution_type(kind),
        name=f"{EXECUTION_TYPE}:{given.run}",
        last_known_state=_STATE.COMPLETE,
    )
    for name, value in vars(given).items():
        execution.properties[name].string_value = value
    blessing.mlmd_artifact.state = _ARTIFACT.LIVE
    written = execution_lib.put_execution(
        handle,
        execution,
        list(contexts),
        input_artifacts={key: [artifact] for key, artifact in inputs.items()},
        output_artifacts={"blessing": [blessing]},
    )
    return Recorded(given, written, None)


def record_push(handle: Any, recorded: Recorded, pushed: Any, contexts: Sequence[Any]) -> None:
    """Adds the pushed version to a recorded blessing."""
    pushed.mlmd_artifact.state = _ARTIFACT.LIVE
    execution_lib.put_execution(handle, recorded.execution, list(contexts), output_artifacts={PUSHED_MODEL: [pushed]})

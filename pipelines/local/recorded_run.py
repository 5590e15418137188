"""A local run in ML Metadata: the parameters and outputs of its steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ml_metadata.proto import metadata_store_pb2
from tfx.orchestration.portable.mlmd import execution_lib

_Execution: Any = metadata_store_pb2.Execution


@dataclass(frozen=True)
class RecordedRun:
    """The steps that succeeded or came from the cache, by node id.

    Attributes:
        outputs: artifacts of each step by the output's key.
        parameters: parameters of each step's component.
        contexts: common contexts in ML Metadata: the pipeline's and the run's.
    """

    outputs: Mapping[str, Mapping[str, Any]]
    parameters: Mapping[str, Mapping[str, Any]]
    contexts: list[Any]


def read_recorded(handle: Any, run: str) -> RecordedRun | None:
    """Returns a run from ML Metadata; None if none has this id.

    Args:
        handle: TFX's handle of ML Metadata, entered.
        run: id of the run.
    """
    context = handle.store.get_context_by_type_and_name("pipeline_run", run)
    if context is None:
        return None
    found: dict[str, Any] = {}
    parameters: dict[str, Mapping[str, Any]] = {}
    pipelines: dict[int, Any] = {}
    for execution in handle.store.get_executions_by_context(context.id):
        if execution.last_known_state not in (_Execution.COMPLETE, _Execution.CACHED):
            continue
        contexts = handle.store.get_contexts_by_execution(execution.id)
        pipelines |= {each.id: each for each in contexts if each.type == "pipeline"}
        # The name of a node's context is <pipeline>.<node>.
        for node in [each.name.rsplit(".", 1)[1] for each in contexts if each.type == "node"]:
            outputs = execution_lib.get_output_artifacts(handle, execution.id)
            found[node] = {key: artifacts[0] for key, artifacts in outputs.items() if artifacts}
            parameters[node] = {
                name: getattr(value, value.WhichOneof("value")) for name, value in execution.custom_properties.items()
            }
    return RecordedRun(found, parameters, [*pipelines.values(), context])

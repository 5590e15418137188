"""A local run as ML Metadata recorded it: the parameters and outputs of its steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ml_metadata.proto import metadata_store_pb2
from tfx.orchestration.portable.mlmd import execution_lib

_Execution: Any = metadata_store_pb2.Execution


@dataclass(frozen=True)
class RecordedStep:
    """A step that succeeded, or came from the cache.

    Attributes:
        outputs: artifacts by the output's key.
        properties: the component's parameters.
    """

    outputs: Mapping[str, Any]
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class RecordedRun:
    """Steps by node id, and their shared contexts in ML Metadata: the pipeline's and the run's."""

    steps: Mapping[str, RecordedStep]
    contexts: list[Any]


def read_run(handle: Any, run: str) -> RecordedRun | None:
    """Returns a run from ML Metadata; None if there is none of this id.

    Args:
        handle: TFX's handle of ML Metadata, entered.
        run: its id.
    """
    context = handle.store.get_context_by_type_and_name("pipeline_run", run)
    if context is None:
        return None
    steps: dict[str, RecordedStep] = {}
    pipelines: dict[int, Any] = {}
    for execution in handle.store.get_executions_by_context(context.id):
        if execution.last_known_state not in (_Execution.COMPLETE, _Execution.CACHED):
            continue
        contexts = handle.store.get_contexts_by_execution(execution.id)
        pipelines |= {each.id: each for each in contexts if each.type == "pipeline"}
        # The name of a node's context is <pipeline>.<node>.
        for node in [each.name.rsplit(".", 1)[1] for each in contexts if each.type == "node"]:
            outputs = execution_lib.get_output_artifacts(handle, execution.id)
            steps[node] = RecordedStep(
                outputs={key: artifacts[0] for key, artifacts in outputs.items() if artifacts},
                properties={
                    name: getattr(value, value.WhichOneof("value"))
                    for name, value in execution.custom_properties.items()
                },
            )
    return RecordedRun(steps, [*pipelines.values(), context])

"""A local run as ML Metadata remembers it: what each of its steps was given and has made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ml_metadata.proto import metadata_store_pb2
from tfx.orchestration.portable.mlmd import execution_lib

_Execution: Any = metadata_store_pb2.Execution


@dataclass(frozen=True)
class RecordedStep:
    """A step that ended well, or was taken from the cache.

    Attributes:
        outputs: artifacts by the output's key.
        properties: the component's parameters.
    """

    outputs: Mapping[str, Any]
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class RecordedRun:
    """Steps by node id, and the contexts of ML Metadata that tie them together: the pipeline's and the run's."""

    steps: Mapping[str, RecordedStep]
    contexts: list[Any]


def read_run(handle: Any, run: str) -> RecordedRun | None:
    """Returns what ML Metadata knows of a run; None if it knows of none.

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
        pipelines |= {found.id: found for found in contexts if found.type == "pipeline"}
        # The name of a node's context is <pipeline>.<node>.
        for node in [found.name.rsplit(".", 1)[1] for found in contexts if found.type == "node"]:
            outputs = execution_lib.get_output_artifacts(handle, execution.id)
            steps[node] = RecordedStep(
                outputs={key: found[0] for key, found in outputs.items() if found},
                properties={
                    name: getattr(value, value.WhichOneof("value"))
                    for name, value in execution.custom_properties.items()
                },
            )
    return RecordedRun(steps, [*pipelines.values(), context])

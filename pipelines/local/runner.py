"""Runs a TFX pipeline in this process, step by step in topological order.

TFX's LocalDagRunner has no observers, and continues after a step whose inputs could not be resolved.
"""

import functools
from collections.abc import Sequence
from typing import Any

from ml_metadata.proto import metadata_store_pb2
from tfx.dsl.compiler import compiler, constants
from tfx.orchestration import metadata
from tfx.orchestration.local import runner_utils
from tfx.orchestration.pipeline import Pipeline
from tfx.orchestration.portable import launcher, runtime_parameter_utils
from tfx.orchestration.portable.beam_executor_operator import BeamExecutorOperator
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration.executable_spec_pb2 import BeamExecutableSpec

from sangam.components.record.measuring import measured
from sangam.components.record.run import Artifact, Observer

_Execution: Any = metadata_store_pb2.Execution


class StepError(Exception):
    """A step that was skipped without an exception: an input was missing."""


def metadata_of(pipeline: Pipeline) -> Any:
    """Returns a new handle of the pipeline's ML Metadata; enter it to use it."""
    return metadata.Metadata(pipeline.metadata_connection_config)


def run_pipeline(pipeline: Pipeline, run_id: str, observers: Sequence[Observer]) -> None:
    """Runs every step; one that succeeded before with the same inputs, parameters and code comes from the cache.

    Args:
        pipeline: built with a SQLite metadata connection.
        run_id: unique among the runs of this pipeline.
        observers: called at the start and the end of every step, in this order.

    Raises:
        Exception: the exception of the failing step, after the calls of the observers.
    """
    ir = compiler.Compiler().compile(pipeline)
    parameters = {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
    runtime_parameter_utils.substitute_runtime_parameter(ir, parameters)
    deployment = runner_utils.extract_local_deployment_config(ir)
    for node in ir.nodes:
        node_id = node.pipeline_node.node_info.id
        executor_spec = runner_utils.extract_executor_spec(deployment, node_id)
        step_launcher = launcher.Launcher(
            pipeline_node=node.pipeline_node,
            mlmd_connection=metadata_of(pipeline),
            pipeline_info=ir.pipeline_info,
            pipeline_runtime_spec=ir.runtime_spec,
            executor_spec=_without_beam_args(executor_spec),
            custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, node_id),
            custom_executor_operators={
                BeamExecutableSpec: functools.partial(_operator_with_beam_args, executor_spec),
            },
        )
        _run_step(node_id, step_launcher, metadata_of(pipeline), observers)


def _without_beam_args(executor_spec: Any) -> Any:
    """Returns an executor's part of TFX's cache key: without Beam's arguments, which do not change results."""
    counted = type(executor_spec)()
    counted.CopyFrom(executor_spec)
    if isinstance(counted, BeamExecutableSpec):
        del counted.beam_pipeline_args[:]
        del counted.beam_pipeline_args_placeholders[:]
    return counted


def _operator_with_beam_args(whole_spec: Any, executor_spec: Any, platform_config: Any = None) -> Any:
    """Returns the operator of an executor, with its whole specification."""
    del executor_spec
    return BeamExecutorOperator(whole_spec, platform_config)


def _run_step(node_id: str, step_launcher: Any, store: Any, observers: Sequence[Observer]) -> None:
    with measured(node_id, observers) as ended:
        execution_info = step_launcher.launch()
        ended.state, ended.outputs = _outcome(node_id, execution_info, store)


def _outcome(node_id: str, execution_info: Any, store: Any) -> tuple[str, dict[str, Artifact]]:
    """Returns the state of the execution in ML Metadata, and its outputs.

    The launcher returns new output folders even if cached ones are used.
    """
    if execution_info is None or execution_info.execution_id is None:
        raise StepError(f"{node_id}: was skipped by TFX, because an input is missing; see its log")
    with store as handle:
        [execution] = handle.store.get_executions_by_id([execution_info.execution_id])
        artifacts = execution_lib.get_output_artifacts(handle, execution.id)
    outputs = {key: Artifact(values[0].uri, _properties(values[0])) for key, values in artifacts.items() if values}
    match execution.last_known_state:
        case _Execution.COMPLETE:
            return "ran", outputs
        case _Execution.CACHED:
            return "cached", outputs
        case other:
            state = _Execution.State.Name(other)
            raise StepError(f"{node_id}: did not run (execution {execution.id} is {state}); see its log")


def _properties(artifact: Any) -> dict[str, Any]:
    """Returns the custom properties that a component set on an artifact."""
    properties = artifact.mlmd_artifact.custom_properties
    return {name: getattr(value, value.WhichOneof("value")) for name, value in properties.items()}

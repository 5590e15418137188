"""Declaration of the ingestion step."""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.steps.example_gen.driver import Driver
from sangam.components.steps.example_gen.executor import Executor
from sangam.schemas.spec import Spec


class ExampleGenSpec(ComponentSpec):
    """Inputs, outputs and parameters; the driver sets `start`, `fingerprint` and `generation`."""

    PARAMETERS = {
        "logs": ExecutionParameter(type=str),
        "inputs": ExecutionParameter(type=str),
        "date": ExecutionParameter(type=str),
        "data_root": ExecutionParameter(type=str),
        "name": ExecutionParameter(type=str),
        "mode": ExecutionParameter(type=str),
        "pipeline_root": ExecutionParameter(type=str),
        "start": ExecutionParameter(type=str, optional=True),
        "fingerprint": ExecutionParameter(type=str, optional=True),
        "generation": ExecutionParameter(type=str, optional=True),
        "code": ExecutionParameter(type=str),
    }
    INPUTS: dict[str, Any] = {}
    OUTPUTS = {"examples": ChannelParameter(type=standard_artifacts.Examples)}


class ExampleGen(base_beam_component.BaseBeamComponent):
    """Reads the logs of a date's window, or of named splits, into splits of tf.Examples."""

    SPEC_CLASS = ExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = Driver

    def __init__(self, *, spec: Spec, date: Any, data_root: Any, pipeline_root: Any):
        """Declares the step.

        Args:
            spec: spec, of which only the data section, the features, the tasks and training.mode count here.
            date: YYYY-MM-DD, or empty for yesterday (UTC); a str or a RuntimeParameter.
            data_root: folder that the spec's patterns are relative to; a str or a RuntimeParameter.
            pipeline_root: pipeline root with the blessings, for training.mode incremental; a str or a RuntimeParameter.
        """
        super().__init__(
            ExampleGenSpec(
                logs=spec.data.model_dump_json(),
                inputs=spec.inputs().model_dump_json(),
                date=date,
                data_root=data_root,
                name=spec.name,
                mode=spec.training.mode,
                pipeline_root=pipeline_root,
                code=code_digest(Executor.__module__, parts=spec.parts),
                examples=types.Channel(type=standard_artifacts.Examples),
            )
        )

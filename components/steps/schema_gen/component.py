"""Declares the schema step."""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.steps.schema_gen.executor import Executor
from sangam.schemas.spec import Inputs


class SchemaGenSpec(ComponentSpec):
    """Inputs, outputs and parameters."""

    PARAMETERS = {"inputs": ExecutionParameter(type=str), "code": ExecutionParameter(type=str)}
    INPUTS: dict[str, Any] = {}
    OUTPUTS = {"schema": ChannelParameter(type=standard_artifacts.Schema)}


class SchemaGen(base_component.BaseComponent):
    """Derives the schema of the Examples from the spec."""

    SPEC_CLASS = SchemaGenSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, *, inputs: Inputs):
        """Declares the step.

        Args:
            inputs: spec, of which only features, tasks and keys count.
        """
        super().__init__(
            SchemaGenSpec(
                inputs=inputs.inputs().model_dump_json(),
                code=code_digest(Executor.__module__, parts=inputs.parts),
                schema=types.Channel(type=standard_artifacts.Schema),
            )
        )

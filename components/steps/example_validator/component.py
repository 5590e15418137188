"""Declares the validation step."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.steps.example_validator.executor import Executor
from sangam.schemas.spec import Spec


class ExampleValidatorSpec(ComponentSpec):
    """Inputs, outputs and parameters, with the names that TFX's executor expects."""

    PARAMETERS = {
        "inputs": ExecutionParameter(type=str),
        "drift": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
    }
    INPUTS = {
        "statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "schema": ChannelParameter(type=standard_artifacts.Schema),
    }
    OUTPUTS = {"anomalies": ChannelParameter(type=standard_artifacts.ExampleAnomalies)}


class ExampleValidator(base_component.BaseComponent):
    """Compares statistics with the schema, and the evaluation split's with the training split's.

    Output: `anomalies`, with `drift.json` if the spec has a `drift` section. Anomalies stop the run; drift stops it or
    becomes the artifact's custom property `note`, depending on `drift.action`.
    """

    SPEC_CLASS = ExampleValidatorSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, *, spec: Spec, statistics: types.Channel, schema: types.Channel):
        """Declares the step.

        Args:
            spec: spec, of which only the inputs and the drift section count.
            statistics: statistics of the Examples.
            schema: schema of the spec.
        """
        super().__init__(
            ExampleValidatorSpec(
                statistics=statistics,
                schema=schema,
                inputs=spec.inputs().model_dump_json(),
                drift=spec.drift.model_dump_json() if spec.drift else "",
                code=code_digest(Executor.__module__, parts=spec.parts),
                anomalies=types.Channel(type=standard_artifacts.ExampleAnomalies),
            )
        )

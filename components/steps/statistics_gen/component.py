"""Declares the statistics step."""

from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.steps.statistics_gen.executor import Executor, Options


class StatisticsGenSpec(ComponentSpec):
    """Inputs, outputs and parameters."""

    PARAMETERS = {"options": ExecutionParameter(type=str), "code": ExecutionParameter(type=str)}
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "schema": ChannelParameter(type=standard_artifacts.Schema),
    }
    OUTPUTS = {"statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics)}


class StatisticsGen(base_beam_component.BaseBeamComponent):
    """Computes the statistics of every split; ids that are categorical in the schema are counted as strings.

    Output: `statistics`.
    """

    SPEC_CLASS = StatisticsGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(self, *, examples: types.BaseChannel, schema: types.BaseChannel, options: Mapping[str, Any]):
        """Declares the step.

        Args:
            examples: channel of the raw examples.
            schema: channel of their schema.
            options: the fields of `executor.Options`.
        """
        super().__init__(
            spec=StatisticsGenSpec(
                examples=examples,
                schema=schema,
                options=Options.model_validate(options).model_dump_json(),
                code=code_digest(Executor.__module__),
                statistics=types.Channel(type=standard_artifacts.ExampleStatistics),
            )
        )

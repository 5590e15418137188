"""Declares TFX's StatisticsGen with a cache key that contains the versions of libraries."""

from typing import ClassVar

import tensorflow_data_validation as tfdv
from tfx import types
from tfx.components.statistics_gen import executor
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import standard_artifacts, standard_component_specs
from tfx.types.component_spec import ExecutionParameter
from tfx.utils import json_utils

from components.caching.code_digest import code_digest


class StatisticsGenSpec(standard_component_specs.StatisticsGenSpec):
    """TFX's inputs, outputs and parameters, and `code`, which is only part of the cache key."""

    PARAMETERS: ClassVar[dict[str, ExecutionParameter]] = {
        **standard_component_specs.StatisticsGenSpec.PARAMETERS,
        "code": ExecutionParameter(type=str),
    }


class StatisticsGen(base_beam_component.BaseBeamComponent):
    """Computes the statistics of every split; ids that are categorical in the schema are counted as strings.

    Output: `statistics`.
    """

    SPEC_CLASS = StatisticsGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(self, *, examples: types.BaseChannel, schema: types.BaseChannel, options: tfdv.StatsOptions) -> None:
        """Declares the step."""
        super().__init__(
            spec=StatisticsGenSpec(
                examples=examples,
                schema=schema,
                stats_options_json=options.to_json(),
                exclude_splits=json_utils.dumps([]),
                code=code_digest(),
                statistics=types.Channel(type=standard_artifacts.ExampleStatistics),
            )
        )

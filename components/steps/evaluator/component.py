"""Declares the evaluator: the candidate model against its gates and the last blessed model."""

import json
from typing import ClassVar

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration import data_types
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.steps.evaluator.driver import Driver
from sangam.components.steps.evaluator.executor import Executor
from sangam.schemas.spec import Spec


class EvaluatorSpec(ComponentSpec):
    """Inputs, outputs and parameters of the evaluator."""

    INPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "model": ChannelParameter(type=standard_artifacts.Model),
        "training": ChannelParameter(type=standard_artifacts.ModelRun),
    }
    OUTPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "evaluation": ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "blessing": ChannelParameter(type=standard_artifacts.ModelBlessing),
    }
    PARAMETERS: ClassVar[dict[str, ExecutionParameter]] = {
        "name": ExecutionParameter(type=str),
        "inputs": ExecutionParameter(type=str),
        "evaluation_config": ExecutionParameter(type=str),
        "gates": ExecutionParameter(type=str),
        "export": ExecutionParameter(type=str),
        "pipeline_root": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
        "baseline_uri": ExecutionParameter(type=str, optional=True),
    }


class Evaluator(base_beam_component.BaseBeamComponent):
    """Measures a model and blesses it if every gate of every task passes.

    Outputs: `evaluation` (`metrics.parquet`, `verdict.json`, and the same as text, `verdict.txt`) and `blessing`.
    """

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = Driver

    def __init__(
        self,
        *,
        spec: Spec,
        examples: types.BaseChannel,
        model: types.BaseChannel,
        training: types.BaseChannel,
        pipeline_root: str | data_types.RuntimeParameter,
    ) -> None:
        """Takes only the dependencies of a verdict, so that no other change of the spec repeats the evaluation.

        `training` contains the measured loss of reduced rows.
        """
        super().__init__(
            spec=EvaluatorSpec(
                examples=examples,
                model=model,
                training=training,
                name=spec.name,
                inputs=spec.inputs().model_dump_json(),
                evaluation_config=spec.evaluation.model_dump_json(),
                gates=json.dumps([gate.model_dump(mode="json") for gate in spec.quality_gates]),
                export=spec.export.model_dump_json(),
                pipeline_root=pipeline_root,
                code=code_digest(Executor.__module__, parts=spec.parts),
                evaluation=types.Channel(type=standard_artifacts.ModelEvaluation),
                blessing=types.Channel(type=standard_artifacts.ModelBlessing),
            )
        )

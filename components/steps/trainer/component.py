"""Declares the training step."""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.registry.checkpoint import RankerCheckpoint
from sangam.components.steps.trainer.executor import Executor
from sangam.schemas.spec import Spec


class TrainerSpec(types.ComponentSpec):
    """Inputs, outputs and parameters of the step."""

    PARAMETERS = {
        "ranker": ExecutionParameter(type=str),
        "pipeline_root": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
        "launch": ExecutionParameter(type=str),
    }
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "transformed_examples": ChannelParameter(type=standard_artifacts.Examples, optional=True),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph),
    }
    OUTPUTS = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "training": ChannelParameter(type=standard_artifacts.ModelRun),
        "checkpoint": ChannelParameter(type=RankerCheckpoint),
    }


class Trainer(base_component.BaseComponent):
    """Trains a ranker with Horovod ranks fed by a tf.data service pool, and exports it.

    Outputs: `model`, `training` (its report) and `checkpoint`, which a later training can start from.
    """

    SPEC_CLASS = TrainerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        *,
        spec: Spec,
        examples: Any,
        transform_graph: Any,
        pipeline_root: Any,
        transformed_examples: Any = None,
        launch: str = "",
    ):
        """Declares the step.

        Args:
            spec: spec, of which only the ranker part counts: changing a gate or the push target does not train again.
            examples: channel of raw examples, with the report of ingestion; a few of the evaluation split are scored
                by the ranks and by the export.
            transform_graph: channel of Transform's graph, a part of the served model.
            pipeline_root: pipeline root for checkpoints of unfinished trainings; a str or a RuntimeParameter.
            transformed_examples: channel of Transform's examples; None: the raw ones are transformed during
                reading.
            launch: JSON of `schemas.spec.cluster.Launch` for a training job of several pods; "": local processes.
        """
        super().__init__(
            TrainerSpec(
                ranker=spec.ranker().model_dump_json(),
                pipeline_root=pipeline_root,
                code=code_digest(Executor.__module__, parts=spec.parts),
                launch=launch,
                examples=examples,
                transformed_examples=transformed_examples,
                transform_graph=transform_graph,
                model=types.Channel(type=standard_artifacts.Model),
                training=types.Channel(type=standard_artifacts.ModelRun),
                checkpoint=types.Channel(type=RankerCheckpoint),
            )
        )

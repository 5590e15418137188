"""Declares the pusher: it publishes a blessed model as a version that servers load."""

from typing import ClassVar

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration import data_types
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.registry.checkpoint import RankerCheckpoint
from sangam.components.steps.pusher.driver import Driver
from sangam.components.steps.pusher.executor import Executor
from sangam.schemas.spec import Spec, digest


class PusherSpec(ComponentSpec):
    """Inputs, outputs and parameters of the pusher."""

    INPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "model": ChannelParameter(type=standard_artifacts.Model),
        "blessing": ChannelParameter(type=standard_artifacts.ModelBlessing),
        "infra_blessing": ChannelParameter(type=standard_artifacts.InfraBlessing),
        "evaluation": ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "checkpoint": ChannelParameter(type=RankerCheckpoint),
    }
    OUTPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "pushed_model": ChannelParameter(type=standard_artifacts.PushedModel)
    }
    PARAMETERS: ClassVar[dict[str, ExecutionParameter]] = {
        "name": ExecutionParameter(type=str),
        "push": ExecutionParameter(type=str),
        "evaluation_config": ExecutionParameter(type=str),
        "cost": ExecutionParameter(type=str),
        "request_log": ExecutionParameter(type=str),
        "inputs": ExecutionParameter(type=str),
        "drift": ExecutionParameter(type=str),
        "shadow": ExecutionParameter(type=str),
        "intended_use": ExecutionParameter(type=str),
        "ranker_digest": ExecutionParameter(type=str),
        "pipeline_root": ExecutionParameter(type=str),
        "spec_digest": ExecutionParameter(type=str),
        "git_commit": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
        "pushes": ExecutionParameter(type=int, optional=True),
    }


class Pusher(base_component.BaseComponent):
    """Pushes the model if the quality gates and the serving gate have blessed it, and records the blessing.

    Output: `pushed_model` with the custom properties `pushed` (0 or 1), `version` and `path`.
    """

    SPEC_CLASS = PusherSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)
    DRIVER_CLASS = Driver

    def __init__(
        self,
        *,
        spec: Spec,
        examples: types.BaseChannel,
        statistics: types.BaseChannel,
        model: types.BaseChannel,
        blessing: types.BaseChannel,
        infra_blessing: types.BaseChannel,
        evaluation: types.BaseChannel,
        checkpoint: types.BaseChannel,
        pipeline_root: str | data_types.RuntimeParameter,
        spec_digest: str,
        git_commit: str,
    ) -> None:
        """Takes the push target from the spec, and facts for the manifest and the model card.

        The checkpoint goes into the record of the blessed model, as the base of later incremental trainings.
        """
        super().__init__(
            spec=PusherSpec(
                examples=examples,
                statistics=statistics,
                model=model,
                blessing=blessing,
                infra_blessing=infra_blessing,
                evaluation=evaluation,
                checkpoint=checkpoint,
                name=spec.name,
                push=spec.push.model_dump_json(),
                evaluation_config=spec.evaluation.model_dump_json(exclude={"metrics", "slices"}),
                cost=_cost(spec),
                request_log=spec.serving.log.model_dump_json() if spec.serving.log else "",
                inputs=spec.inputs().model_dump_json(),
                drift=spec.drift.model_dump_json() if spec.drift else "",
                shadow=spec.serving.shadow.model_dump_json() if spec.serving.shadow else "",
                intended_use=spec.intended_use,
                ranker_digest=digest(spec.ranker()),
                pipeline_root=pipeline_root,
                spec_digest=spec_digest,
                git_commit=git_commit,
                code=code_digest(Executor.__module__),
                pushed_model=types.Channel(type=standard_artifacts.PushedModel),
            )
        )


def _cost(spec: Spec) -> str:
    """Returns the price of serving, for the model card, as JSON; without other prices, whose change pushes nothing."""
    if spec.cost is None or spec.cost.serving_core_hour is None:
        return ""
    others: dict[str, object] = {"rank_per_hour": 0.0, "step_per_hour": 0.0, "gpu_rank_per_hour": None}
    return spec.cost.model_copy(update=others).model_dump_json()

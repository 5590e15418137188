"""Declares the serving check: a model that no server can serve well is not pushed."""

from typing import ClassVar

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.caching.code_digest import code_digest
from components.steps.infra_validator.driver import Driver
from components.steps.infra_validator.executor import Executor
from schemas.spec import Spec


class InfraValidatorSpec(ComponentSpec):
    """Inputs, outputs and parameters of the serving check."""

    INPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "training": ChannelParameter(type=standard_artifacts.ModelRun),
    }
    OUTPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "blessing": ChannelParameter(type=standard_artifacts.InfraBlessing)
    }
    PARAMETERS: ClassVar[dict[str, ExecutionParameter]] = {
        "name": ExecutionParameter(type=str),
        "serving": ExecutionParameter(type=str),
        "evaluation": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
        "refusals": ExecutionParameter(type=int, optional=True),
    }


class InfraValidator(base_component.BaseComponent):
    """Loads the model into a server in a process of its own, and blesses it if the server answers as it should.

    Output: `blessing`, as TFX marks it, with `infra_verdict.json`.
    """

    SPEC_CLASS = InfraValidatorSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)
    DRIVER_CLASS = Driver

    def __init__(self, *, spec: Spec, model: types.BaseChannel, training: types.BaseChannel) -> None:
        """Declares the step.

        Args:
            spec: its serving bounds; its evaluation says whose candidates a request holds.
            model: channel of the exported model.
            training: channel of the training's report: raw evaluation examples, and the scores of them.
        """
        super().__init__(
            spec=InfraValidatorSpec(
                model=model,
                training=training,
                name=spec.name,
                serving=spec.serving.model_dump_json(),
                evaluation=spec.evaluation.model_dump_json(),
                code=code_digest(Executor.__module__),
                blessing=types.Channel(type=standard_artifacts.InfraBlessing),
            )
        )

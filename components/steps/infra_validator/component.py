"""Declares the serving gate: a model that a server cannot serve well is not pushed."""

import json
from typing import ClassVar

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration import data_types
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.steps.infra_validator.driver import Driver
from sangam.components.steps.infra_validator.executor import Executor
from sangam.components.steps.infra_validator.skew import declared
from sangam.schemas.spec import Spec


class InfraValidatorSpec(ComponentSpec):
    """Inputs, outputs and parameters of the serving gate."""

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
        "price": ExecutionParameter(type=str),
        "pipeline_root": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
        "refusals": ExecutionParameter(type=int, optional=True),
        "skew": ExecutionParameter(type=str, optional=True),
        "date": ExecutionParameter(type=str, optional=True),
        "data_root": ExecutionParameter(type=str, optional=True),
    }


class InfraValidator(base_component.BaseComponent):
    """Serves the model from a separate process, and blesses it if every check of the server passes.

    Output: `blessing`, in TFX's form, with `infra_verdict.json`.
    """

    SPEC_CLASS = InfraValidatorSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)
    DRIVER_CLASS = Driver

    def __init__(
        self,
        *,
        spec: Spec,
        model: types.BaseChannel,
        training: types.BaseChannel,
        pipeline_root: str | data_types.RuntimeParameter,
        date: str | data_types.RuntimeParameter,
        data_root: str | data_types.RuntimeParameter,
    ) -> None:
        """Declares the step.

        Args:
            spec: spec, of which `serving` has the bounds, and `evaluation` the features that a request shares.
            model: channel of the exported model.
            training: channel of the training report: raw evaluation examples with their scores.
            pipeline_root: folder with the record of blessed models, of which the last is the live one.
            date: date of the run, whose logged requests the gates of skew judge; of other specs nothing is passed on.
            data_root: folder of the logs, likewise.
        """
        skew = declared(spec)
        of_skew = {"skew": skew.model_dump_json(), "date": date, "data_root": data_root} if skew else {}
        super().__init__(
            spec=InfraValidatorSpec(
                model=model,
                training=training,
                name=spec.name,
                serving=spec.serving.model_dump_json(exclude={"log", "shadow"}),
                evaluation=spec.evaluation.model_dump_json(exclude={"metrics", "slices"}),
                price=_price(spec),
                pipeline_root=pipeline_root,
                code=code_digest(Executor.__module__),
                blessing=types.Channel(type=standard_artifacts.InfraBlessing),
                **of_skew,
            )
        )


def _price(spec: Spec) -> str:
    """Returns whether and how prices are compared, as JSON; not the price, whose change measures nothing anew."""
    gate = spec.price_gate
    if gate is None and (spec.cost is None or spec.cost.serving_core_hour is None):
        return ""
    return json.dumps({"max_increase": gate and gate.max_increase})

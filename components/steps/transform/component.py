"""Declares TFX's Transform with an executor that can keep the statistics of an earlier graph."""

from tfx import types
from tfx.components.transform import component
from tfx.dsl.components.base import executor_spec

from components.steps.transform.code import transform_code
from components.steps.transform.executor import Executor
from schemas.spec import Inputs


class Transform(component.Transform):
    """Computes statistics over the split `train`, and maps every split to the ranker's inputs."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        *,
        inputs: Inputs,
        preprocessing_fn: str,
        examples: types.BaseChannel,
        schema: types.BaseChannel,
    ):
        """Declares the step.

        Args:
            inputs: of the spec.
            preprocessing_fn: dotted path of the function.
            examples: channel of the raw examples, with the report of ingestion.
            schema: channel of their schema.
        """
        super().__init__(
            examples=examples,
            schema=schema,
            preprocessing_fn=preprocessing_fn,
            custom_config={
                "inputs": inputs.inputs().model_dump_json(),
                "code": transform_code(preprocessing_fn),
            },
            disable_statistics=True,
            disable_analyzer_cache=True,
        )

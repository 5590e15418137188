"""Declares the transform step, whose graph TensorFlow Transform's tools can read."""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types import standard_component_specs as keys
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.steps.transform.code import transform_code
from sangam.components.steps.transform.executor import Executor
from sangam.schemas.spec import Inputs


class TransformSpec(ComponentSpec):
    """Inputs, outputs and parameters."""

    PARAMETERS = {
        "inputs": ExecutionParameter(type=str),
        keys.PREPROCESSING_FN_KEY: ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
    }
    INPUTS = {
        keys.EXAMPLES_KEY: ChannelParameter(type=standard_artifacts.Examples),
        keys.SCHEMA_KEY: ChannelParameter(type=standard_artifacts.Schema),
    }
    OUTPUTS = {
        keys.TRANSFORM_GRAPH_KEY: ChannelParameter(type=standard_artifacts.TransformGraph),
        keys.TRANSFORMED_EXAMPLES_KEY: ChannelParameter(type=standard_artifacts.Examples, optional=True),
    }


class Transform(base_beam_component.BaseBeamComponent):
    """Computes statistics over the split `train`, and writes the graph that maps rows to the ranker's inputs.

    Outputs: `transform_graph`, and `transformed_examples` of every split if they are materialized.
    """

    SPEC_CLASS = TransformSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        *,
        inputs: Inputs,
        preprocessing_fn: str,
        examples: types.BaseChannel,
        schema: types.BaseChannel,
        materialize: bool = True,
    ):
        """Declares the step.

        Args:
            inputs: inputs of the spec.
            preprocessing_fn: dotted path of the function.
            examples: channel of the raw examples, with the report of ingestion.
            schema: channel of their schema.
            materialize: whether to write the transformed examples; otherwise the data workers apply the graph.
        """
        outputs: dict[str, Any] = {keys.TRANSFORM_GRAPH_KEY: types.Channel(type=standard_artifacts.TransformGraph)}
        if materialize:
            outputs[keys.TRANSFORMED_EXAMPLES_KEY] = types.Channel(type=standard_artifacts.Examples)
        super().__init__(
            spec=TransformSpec(
                examples=examples,
                schema=schema,
                inputs=inputs.inputs().model_dump_json(),
                preprocessing_fn=preprocessing_fn,
                code=transform_code(preprocessing_fn, inputs.parts),
                **outputs,
            )
        )

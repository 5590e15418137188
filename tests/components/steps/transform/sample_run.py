"""Runs of the step Transform."""

from pathlib import Path
from typing import Any

from sangam.schemas.spec import Inputs
from tests.beam_args import BEAM_ARGS


def transformed(root: Path, examples: Any, inputs: Inputs, code: str = "c") -> Any:
    """Runs the executor; returns the artifact of the graph. The examples lie in `root / "transformed"`."""
    from tfx.types import standard_artifacts

    from sangam.components.steps.schema_gen.executor import Executor as SchemaGenExecutor
    from sangam.components.steps.transform.executor import Executor

    schema, graph, output = standard_artifacts.Schema(), standard_artifacts.TransformGraph(), type(examples)()
    schema.uri, graph.uri, output.uri = str(root / "schema"), str(root / "graph"), str(root / "transformed")
    SchemaGenExecutor().Do({}, {"schema": [schema]}, {"inputs": inputs.model_dump_json()})
    Executor(Executor.Context(beam_pipeline_args=list(BEAM_ARGS))).Do(
        {"examples": [examples], "schema": [schema]},
        {"transform_graph": [graph], "transformed_examples": [output]},
        {
            "preprocessing_fn": "sangam.trainer_module.transforms.preprocessing.preprocessing_fn",
            "inputs": inputs.model_dump_json(),
            "code": code,
        },
    )
    return graph

"""Runs Transform: anew as TFX does, or with the graph of the base that training starts from."""

import logging
import os
from typing import Any

from tfx.components.transform import executor as tfx_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.types import standard_component_specs as keys
from tfx.utils import io_utils, json_utils

from components.example_gen.report import read_ingestion
from components.registry.base import Base
from components.registry.checkpoint import TRANSFORM_CODE
from components.transform.reuse import TEMPORARY, transform_with
from schemas.spec import Inputs, digest

_LOG = logging.getLogger(__name__)
REUSED_FROM, NOTE = "reused_from", "note"
"""Custom properties of the graph: the uri it was copied from, if it was, and why not, where one could expect it."""

Artifacts = dict[str, list[Any]]


class Executor(tfx_executor.Executor):
    """TFX's Transform, but for an incremental training.

    Weights are trained for inputs that were scaled by some mean and variance. Statistics of the new days alone would
    shift the inputs under the weights, so the graph stays as long as the declaration of the inputs does, and the code
    that made it.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Writes the graph and the transformed examples of every split."""
        examples = artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY])
        given = json_utils.loads(exec_properties[keys.CUSTOM_CONFIG_KEY])
        inputs = Inputs.model_validate_json(given["inputs"])
        reused, note = _reusable(read_ingestion(examples.uri).base, digest(inputs), given["code"])
        graph = artifact_utils.get_single_instance(output_dict[keys.TRANSFORM_GRAPH_KEY])
        _LOG.info("transform reused=%r note=%r", reused, note)
        if reused:
            self._reuse(reused, examples, input_dict, output_dict)
        else:
            super().Do(input_dict, output_dict, exec_properties)
        graph.set_string_custom_property(REUSED_FROM, reused)
        graph.set_string_custom_property(NOTE, note)
        graph.set_string_custom_property(TRANSFORM_CODE, given["code"])

    def _reuse(self, reused: str, examples: Any, input_dict: Artifacts, output_dict: Artifacts) -> None:
        graph = artifact_utils.get_single_uri(output_dict[keys.TRANSFORM_GRAPH_KEY])
        transformed = artifact_utils.get_single_instance(output_dict[keys.TRANSFORMED_EXAMPLES_KEY])
        schema_file = io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(input_dict[keys.SCHEMA_KEY]))
        transformed.split_names = examples.split_names
        splits = {
            split: (artifact_utils.get_split_uri([examples], split), artifact_utils.get_split_uri([transformed], split))
            for split in artifact_utils.decode_split_names(examples.split_names)
        }
        io_utils.copy_dir(reused, graph)
        with self._make_beam_pipeline() as pipeline:
            transform_with(graph, io_utils.SchemaReader().read(schema_file), splits, pipeline)
        io_utils.delete_dir(os.path.join(graph, TEMPORARY))


def _reusable(base: Base | None, inputs_digest: str, code: str) -> tuple[str, str]:
    """Returns the uri of the graph to go on with, or "" and the reason why there is none, if it is worth telling."""
    if base is None:
        return "", ""
    if base.inputs_digest != inputs_digest:
        return "", (
            "features, tasks or their columns have changed since the base was trained: means and ranges of the inputs "
            "were computed anew, over the new days alone"
        )
    if base.transform_code != code:
        return "", (
            "Transform's code, or the version of a library, has changed since the base was trained: means and ranges "
            "of the inputs were computed anew, over the new days alone"
        )
    if not fileio.isdir(base.transform_graph_uri):
        return "", (
            f"the graph of Transform that the base was trained with is gone ({base.transform_graph_uri}): means and "
            "ranges of the inputs were computed anew, over the new days alone"
        )
    return base.transform_graph_uri, ""

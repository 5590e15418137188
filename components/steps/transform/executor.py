"""Runs Transform: statistics first, of what the base of the training has not told; then TFX, which applies them."""

import importlib
import json
import logging
import os
from typing import Any

from tfx.components.transform import executor as tfx_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.types import standard_component_specs as keys
from tfx.utils import io_utils, json_utils
from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

from components.registry import seal
from components.registry.base import Base
from components.reports.artifact_files import read_ingestion, read_statistics, write_statistics
from components.steps.transform.analysis import StatisticsFn, analyzed, read_columns
from components.steps.transform.mapping import map_examples
from schemas.contracts.statistics import Comparison, Found, Statistics, compared, completed, to_analyze
from schemas.spec import Inputs
from schemas.spec.data import TRAIN

_LOG = logging.getLogger(__name__)
NOTE = "note"
"""Custom property of the graph: what of the base's statistics could not be kept, and why."""
_STATISTICS_FN = "statistics_fn"
"""In the module of the preprocessing_fn."""
_TEMPORARY = ".analysis"
_MEND = "restore it from a backup, or remove it: then all statistics are computed anew, and a note says so"

Artifacts = dict[str, list[Any]]


class Executor(tfx_executor.Executor):
    """TFX's Transform, given the statistics of all features as constants.

    Weights are trained for inputs that were scaled by some mean and variance, and rows for some range of numbers.
    Statistics of the new days alone would shift the inputs under them, so a feature keeps those of the base for as long
    as its declaration stays.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Writes the graph, the statistics beside it, and the transformed examples of every split."""
        examples = artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY])
        graph = artifact_utils.get_single_instance(output_dict[keys.TRANSFORM_GRAPH_KEY])
        config = json_utils.loads(exec_properties[keys.CUSTOM_CONFIG_KEY])
        inputs = Inputs.model_validate_json(config["inputs"])
        base = read_ingestion(examples.uri).base
        comparison = _comparison(inputs, base, config["code"])
        known = comparison.kept if comparison else {}
        pending = to_analyze(inputs, known)
        _LOG.info("transform base=%s kept=%s analyzed=%s", base and base.transform_graph_uri, sorted(known), pending)
        found = self._analyzed(pending, inputs, input_dict, graph.uri, exec_properties)
        statistics = Statistics(
            code=config["code"],
            features=completed(inputs, known, found),
            changed=tuple(comparison.changed) if comparison else (),
        )
        config["statistics"] = statistics.model_dump_json()
        # Without the examples TFX makes the graph alone: in what it writes, the order of the logs is lost.
        graph_alone = {key: value for key, value in output_dict.items() if key != keys.TRANSFORMED_EXAMPLES_KEY}
        super().Do(input_dict, graph_alone, {**exec_properties, keys.CUSTOM_CONFIG_KEY: json.dumps(config)})
        self._map(graph.uri, input_dict, output_dict)
        write_statistics(graph.uri, statistics)
        graph.set_string_custom_property(seal.SHA256, seal.seal(graph.uri))
        graph.set_string_custom_property(NOTE, "\n".join(comparison.notes(inputs)) if comparison else "")

    def _map(self, graph: str, input_dict: Artifacts, output_dict: Artifacts) -> None:
        """Writes the transformed examples of every split."""
        examples = artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY])
        transformed = artifact_utils.get_single_instance(output_dict[keys.TRANSFORMED_EXAMPLES_KEY])
        transformed.split_names = examples.split_names
        splits = {
            split: (artifact_utils.get_split_uri([examples], split), artifact_utils.get_split_uri([transformed], split))
            for split in artifact_utils.decode_split_names(examples.split_names)
        }
        with self._make_beam_pipeline() as pipeline:
            map_examples(graph, _schema(input_dict), splits, pipeline)

    def _analyzed(
        self,
        names: tuple[str, ...],
        inputs: Inputs,
        input_dict: Artifacts,
        graph: str,
        exec_properties: dict[str, Any],
    ) -> dict[str, Found]:
        """Returns what the training split says of these features."""
        raw = os.path.join(artifact_utils.get_split_uri(input_dict[keys.EXAMPLES_KEY], TRAIN), "*")
        source = TFExampleRecord(raw, schema=_schema(input_dict), telemetry_descriptors=["Transform"])
        source = source.Project(read_columns(inputs, names))
        directory = os.path.join(graph, _TEMPORARY)

        def dataset(pipeline: Any) -> Any:
            return pipeline | source.BeamSource(), source.TensorAdapterConfig()

        found = analyzed(self._make_beam_pipeline(), dataset, _statistics_fn(exec_properties), inputs, names, directory)
        if fileio.isdir(directory):
            io_utils.delete_dir(directory)
        return found


def _schema(input_dict: Artifacts) -> Any:
    file = io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(input_dict[keys.SCHEMA_KEY]))
    return io_utils.SchemaReader().read(file)


def _comparison(inputs: Inputs, base: Base | None, code: str) -> Comparison | None:
    """Returns what of the base's statistics is kept; None without a base."""
    if base is None:
        return None
    if base.transform_graph_sha256 and fileio.isdir(base.transform_graph_uri):
        seal.refuse_changed(base.transform_graph_uri, base.transform_graph_sha256, _MEND)
    before, lost = read_statistics(base.transform_graph_uri)
    return compared(inputs, before, code=code, lost=lost)


def _statistics_fn(exec_properties: dict[str, Any]) -> StatisticsFn:
    module = exec_properties[keys.PREPROCESSING_FN_KEY].rpartition(".")[0]
    found: StatisticsFn = getattr(importlib.import_module(module), _STATISTICS_FN)
    return found

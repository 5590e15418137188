"""Runs Transform: first computes the statistics that the base does not have, then runs TFX, which applies all."""

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
from schemas.contracts.statistics import Analyzed, Comparison, Statistics, compared, completed, to_analyze
from schemas.spec import Inputs
from schemas.spec.data import TRAIN

_LOG = logging.getLogger(__name__)
NOTE = "note"
"""Custom property of the graph: which of the base's statistics could not be kept, and why."""
_STATISTICS_FN = "statistics_fn"
"""In the module of the preprocessing_fn."""
_TEMPORARY = ".analysis"
_FIX = "restore it from a backup, or remove it: then all statistics are computed again, and a note says so"

Artifacts = dict[str, list[Any]]


class Executor(tfx_executor.Executor):
    """TFX's Transform, with the statistics of all features as constants.

    Weights fit inputs scaled by a certain mean and variance, and rows fit certain bucket boundaries. Statistics of the
    new days would shift the inputs, so a feature keeps the base's as long as its spec does not change.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Writes the graph, its statistics, and the transformed examples of every split."""
        examples = artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY])
        graph = artifact_utils.get_single_instance(output_dict[keys.TRANSFORM_GRAPH_KEY])
        config = json_utils.loads(exec_properties[keys.CUSTOM_CONFIG_KEY])
        inputs = Inputs.model_validate_json(config["inputs"])
        base = read_ingestion(examples.uri).base
        comparison = _comparison(inputs, base, config["code"])
        kept = comparison.kept if comparison else {}
        pending = to_analyze(inputs, kept)
        _LOG.info("transform base=%s kept=%s analyzed=%s", base and base.transform_graph_uri, sorted(kept), pending)
        computed = self._analyzed(pending, inputs, input_dict, graph.uri, exec_properties)
        statistics = Statistics(
            code=config["code"],
            features=completed(inputs, kept, computed),
            changed=tuple(comparison.changed) if comparison else (),
        )
        config["statistics"] = statistics.model_dump_json()
        # Without this output TFX makes only the graph: the examples that it writes lose the order of the logs.
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
    ) -> dict[str, Analyzed]:
        """Computes the statistics of these features over the training split."""
        raw = os.path.join(artifact_utils.get_split_uri(input_dict[keys.EXAMPLES_KEY], TRAIN), "*")
        source = TFExampleRecord(raw, schema=_schema(input_dict), telemetry_descriptors=["Transform"])
        source = source.Project(read_columns(inputs, names))
        directory = os.path.join(graph, _TEMPORARY)

        def dataset(pipeline: Any) -> Any:
            return pipeline | source.BeamSource(), source.TensorAdapterConfig()

        statistics = analyzed(
            self._make_beam_pipeline(), dataset, _statistics_fn(exec_properties), inputs, names, directory
        )
        if fileio.isdir(directory):
            io_utils.delete_dir(directory)
        return statistics


def _schema(input_dict: Artifacts) -> Any:
    file = io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(input_dict[keys.SCHEMA_KEY]))
    return io_utils.SchemaReader().read(file)


def _comparison(inputs: Inputs, base: Base | None, code: str) -> Comparison | None:
    """Compares the inputs with the base's statistics; None without a base."""
    if base is None:
        return None
    if base.transform_graph_sha256 and fileio.isdir(base.transform_graph_uri):
        seal.refuse_changed(base.transform_graph_uri, base.transform_graph_sha256, _FIX)
    before, lost = read_statistics(base.transform_graph_uri)
    return compared(inputs, before, code=code, lost=lost)


def _statistics_fn(exec_properties: dict[str, Any]) -> StatisticsFn:
    module = exec_properties[keys.PREPROCESSING_FN_KEY].rpartition(".")[0]
    function: StatisticsFn = getattr(importlib.import_module(module), _STATISTICS_FN)
    return function

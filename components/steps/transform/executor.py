"""Runs Transform: computes the statistics that the base does not have, writes the graph, and maps the examples."""

import functools
import importlib
import json
import logging
from typing import Any

from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.types import standard_component_specs as keys
from tfx.utils import io_utils

from sangam.components.beam.execution import BeamExecutor
from sangam.components.examples.by_day import ByDay
from sangam.components.examples.listing import Listing, read_listing, write_listing
from sangam.components.registry import seal
from sangam.components.registry.base import Base
from sangam.components.reports.artifact_files import read_ingestion, read_statistics, write_statistics
from sangam.components.steps.transform.analysis import Analyze, NumbersFn
from sangam.components.steps.transform.graph import with_history, write_graph
from sangam.components.steps.transform.history.run import RunHistory
from sangam.components.steps.transform.mapping import map_examples
from sangam.schemas.contracts.statistics import (
    Analyzed,
    Comparison,
    Statistics,
    compared,
    completed,
    spec_of,
    to_analyze,
)
from sangam.schemas.derived.days import parse_day
from sangam.schemas.derived.history import history_features, history_groups
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import TRAIN

_LOG = logging.getLogger(__name__)
NOTE = "note"
"""Custom property of the graph: statistics of the base that could not be kept, with reasons."""
_NUMBERS_FN, _HISTORY_KEYS_FN = "numbers_fn", "history_keys_fn"
"""Names of functions in the module of the preprocessing_fn."""
_STEP = "transform"
_FIX = "restore it from a backup, or remove it: then all statistics are computed again, and a note says so"

Artifacts = dict[str, list[Any]]


class Executor(BeamExecutor):
    """Writes a graph of TensorFlow Transform with the statistics of all features as constants.

    Weights were trained with a certain scaling of inputs, and rows with certain bucket boundaries. Statistics of new
    days would shift the inputs, so a feature keeps the base's statistics until its spec changes.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Writes the graph, its statistics, and, if this is an output, the transformed examples of every split."""
        examples = artifact_utils.get_single_instance(input_dict[keys.EXAMPLES_KEY])
        graph = artifact_utils.get_single_instance(output_dict[keys.TRANSFORM_GRAPH_KEY])
        inputs, code = Inputs.model_validate_json(exec_properties["inputs"]), exec_properties["code"]
        report = read_ingestion(examples.uri)
        base = report.base
        comparison = _comparison(inputs, base, code)
        kept = comparison.kept if comparison else {}
        pending = to_analyze(inputs, kept)
        _LOG.info("transform base=%s kept=%s analyzed=%s", base and base.transform_graph_uri, sorted(kept), pending)
        module_name, _, preprocessing_fn = exec_properties[keys.PREPROCESSING_FN_KEY].rpartition(".")
        module, listing = importlib.import_module(module_name), read_listing(examples.uri)
        history: RunHistory | None = None
        if history_features(inputs):
            first = parse_day(str(report.window_start))
            history = RunHistory(inputs, listing, first, graph.uri, code, getattr(module, _HISTORY_KEYS_FN))
            history.complete(self._make_beam_pipeline)
        analyzed = self._analyzed(getattr(module, _NUMBERS_FN), inputs, pending, listing, code, history)
        statistics = Statistics(
            code=code,
            features=completed(inputs, kept, analyzed),
            changed=tuple(comparison.changed) if comparison else (),
        )
        config = {"inputs": exec_properties["inputs"], "statistics": statistics.model_dump_json()}
        preprocess = functools.partial(getattr(module, preprocessing_fn), custom_config=config)
        write_graph(graph.uri, preprocess, with_history(_schema(input_dict), inputs))
        if keys.TRANSFORMED_EXAMPLES_KEY in output_dict:
            self._map(graph.uri, examples, listing, output_dict, history)
        if history:
            history.remove_days()
        write_statistics(graph.uri, statistics)
        graph.set_string_custom_property(seal.SHA256, seal.seal(graph.uri))
        graph.set_string_custom_property(NOTE, "\n".join(comparison.notes(inputs)) if comparison else "")

    def _analyzed(
        self,
        numbers_fn: NumbersFn,
        inputs: Inputs,
        names: tuple[str, ...],
        listing: Listing,
        code: str,
        history: RunHistory | None,
    ) -> dict[str, Analyzed]:
        """Returns the statistics of features over the training split."""
        found: dict[str, Analyzed] = {}
        for group in history_groups(inputs):
            if history and (of_group := tuple(name for name in group.features if name in names)):
                analyze = Analyze(numbers_fn, inputs, of_group)
                found |= analyze.found(analyze.summaries_of_parts(history.train_values(of_group)))
        of_logs = tuple(name for name in names if name not in history_features(inputs))
        if not of_logs:
            return found
        analyze = Analyze(numbers_fn, inputs, of_logs)
        days = listing.splits[TRAIN]
        specs = {name: spec_of(inputs, name) for name in of_logs}
        by_day = ByDay(_STEP, (code, json.dumps(specs)), analyze)
        by_day.complete(days, self._make_beam_pipeline)
        return found | analyze.found(analyze.merged(by_day.results(days)))

    def _map(
        self, graph: str, examples: Any, listing: Listing, output_dict: Artifacts, history: RunHistory | None
    ) -> None:
        """Writes the transformed examples of every split."""
        transformed = artifact_utils.get_single_instance(output_dict[keys.TRANSFORMED_EXAMPLES_KEY])
        transformed.split_names = examples.split_names
        folders = {
            split: artifact_utils.get_split_uri([transformed], split)
            for split in artifact_utils.decode_split_names(examples.split_names)
        }
        with self._make_beam_pipeline() as pipeline:
            made = map_examples(graph, listing, folders, pipeline, history)
        write_listing(transformed.uri, made)


def _schema(input_dict: Artifacts) -> Any:
    file = io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(input_dict[keys.SCHEMA_KEY]))
    return io_utils.SchemaReader().read(file)


def _comparison(inputs: Inputs, base: Base | None, code: str) -> Comparison | None:
    """Compares the inputs with the base's statistics; None without a base."""
    if base is None:
        return None
    if fileio.isdir(base.transform_graph_uri):
        seal.refuse_changed(base.transform_graph_uri, base.transform_graph_sha256, _FIX)
    before, lost = read_statistics(base.transform_graph_uri)
    return compared(inputs, before, code=code, lost=lost)

"""Runs the Beam steps of a run again, in this process, and compares what both have written."""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow_data_validation as tfdv
from google.protobuf import json_format
from tfx.orchestration import metadata
from tfx.orchestration.portable.mlmd import execution_lib

from sangam.components.examples.listing import read_listing
from sangam.components.examples.reading import batches
from sangam.components.steps.evaluator.executor import Executor as Evaluator
from sangam.pipelines.beam import step_args
from sangam.pipelines.local.runner import run_pipeline
from sangam.pipelines.pipeline import Placement, build_examples
from sangam.schemas.contracts.root import Root
from sangam.schemas.contracts.statistics import FILE_NAME
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.beam import LocalBeam
from tests.beam_args import BEAM_ARGS

STATISTICS_TOLERANCE = 1e-9
"""Relative: sums of floats depend on the order of the parts."""
FLOAT_TOLERANCE = 1e-4
"""Of transformed floats: Transform sums means and variances in float32."""
METRIC_TOLERANCE = 2e-6
"""Of metrics that are no AUC."""


def differences(root: Path, spec_path: Path, date: str, logs: Path, again: Path) -> dict[str, list[str]]:
    """Returns by step how a run on an engine differs from the same steps in this process.

    Ingestion makes equal examples, so that statistics and Transform have equal inputs. The evaluator measures the model
    of the run: another training, of inputs that differ by their last digit, would give another model.

    Args:
        root: of the run, the only one in it.
        spec_path: of the run.
        date: of the run.
        logs: of the run.
        again: folder to write to.
    """
    spec = load_spec(spec_path).model_copy(update={"beam": LocalBeam()})
    placement = Placement(date, str(logs), str(again))
    run_pipeline(build_examples(spec, placement, step_args(spec.beam)), "again", [])
    _evaluate_again(root, spec.name.replace("_", "-"), again)

    def both(step: str, output: str) -> tuple[Path, Path]:
        [theirs], [own] = (list((place / "artifacts" / step / output).iterdir()) for place in (root, again))
        return theirs, own

    examples = [_examples(folder) for folder in both("example_gen", "examples")]
    statistics = [_statistics(folder) for folder in both("statistics_gen", "statistics")]
    analyzed = [_flat(json.loads((folder / FILE_NAME).read_text())) for folder in both("transform", "transform_graph")]
    values = [{}, {}]
    if spec.input.transform == "ahead":
        values = [_values(folder) for folder in both("transform", "transformed_examples")]
    verdicts = [_flat(json.loads((folder / "verdict.json").read_text())) for folder in both("evaluator", "evaluation")]
    aucs = [{name: value for name, value in verdict.items() if "auc" in name} for verdict in verdicts]
    assert all((*examples, *statistics, *analyzed, *aucs))
    return {
        "example_gen": [*_unequal(*examples)],
        "statistics_gen": [*_far(*statistics, STATISTICS_TOLERANCE)],
        "transform": [*_far(*analyzed, FLOAT_TOLERANCE), *_far(*values, FLOAT_TOLERANCE)],
        "evaluator": [*_far(*verdicts, METRIC_TOLERANCE), *_unequal(*aucs)],
    }


def _evaluate_again(root: Path, pipeline_name: str, again: Path) -> None:
    """Runs the evaluator on the inputs that it had in a root, and writes where a run in `again` would."""
    with metadata.Metadata(metadata.sqlite_metadata_connection_config(str(Root(str(root)).metadata))) as handle:
        context = handle.store.get_context_by_type_and_name("node", f"{pipeline_name}.evaluator")
        [execution] = handle.store.get_executions_by_context(context.id)
        inputs = {key: list(found) for key, found in execution_lib.get_input_artifacts(handle, execution.id).items()}
        recorded = {key: found[0] for key, found in execution_lib.get_output_artifacts(handle, execution.id).items()}
    properties = {
        name: getattr(value, value.WhichOneof("value"))
        for name, value in execution.custom_properties.items()
        if not name.startswith("__")
    }
    made = {}
    for key, artifact in recorded.items():
        folder = again / "artifacts" / "evaluator" / key / "1"
        folder.mkdir(parents=True)
        made[key] = type(artifact)()
        made[key].uri = str(folder)
    # An empty root: the run itself had no baseline yet.
    properties["pipeline_root"] = str(again / "empty")
    context = Evaluator.Context(beam_pipeline_args=list(BEAM_ARGS), tmp_dir=str(again / ".tmp"), unique_id="1")
    Evaluator(context).Do(inputs, {key: [artifact] for key, artifact in made.items()}, properties)


def _examples(folder: Path) -> dict[str, list[str]]:
    """Returns the rows of each split, in any order."""
    return {split: sorted(map(repr, rows)) for split, rows in _splits(folder)}


def _values(folder: Path) -> dict[str, Any]:
    """Returns every value of every row by its place; both runs have read the same rows in the same order."""
    return {
        f"{split}[{number}].{name}": values
        for split, rows in _splits(folder)
        for number, row in enumerate(rows)
        for name, values in row.items()
    }


def _splits(folder: Path) -> Iterator[tuple[str, Iterator[dict[str, list[Any]]]]]:
    """Yields the splits of examples by name with their rows, in the order of the files."""
    listing = read_listing(str(folder))
    for split in sorted(listing.splits):
        yield split, _rows(listing.files(split))


def _rows(files: Iterable[str]) -> Iterator[dict[str, list[Any]]]:
    for file in files:
        for batch in batches(file):
            for row in batch.to_pylist():
                yield {name: values or [] for name, values in row.items()}


def _statistics(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for split in sorted(folder.glob("Split-*")):
        [file] = list(split.iterdir())
        [dataset] = json_format.MessageToDict(tfdv.load_stats_binary(str(file)))["datasets"]
        features = {str(feature.get("path")): feature for feature in dataset.pop("features")}
        found |= _flat({split.name: {"features": features, "rest": dataset}})
    return found


def _flat(node: Any, place: str = "") -> dict[str, Any]:
    if isinstance(node, dict):
        return {key: value for name in node for key, value in _flat(node[name], f"{place}.{name}").items()}
    if isinstance(node, list):
        return {
            key: value for index, each in enumerate(node) for key, value in _flat(each, f"{place}[{index}]").items()
        }
    return {place: node}


def _unequal(theirs: Any, own: Any) -> Iterator[str]:
    if theirs != own:
        yield f"{str(theirs)[:200]} != {str(own)[:200]}"


def _far(theirs: dict[str, Any], own: dict[str, Any], tolerance: float) -> Iterator[str]:
    if theirs.keys() != own.keys():
        yield f"not of both: {sorted(theirs.keys() ^ own.keys())[:5]}"
    for place in theirs.keys() & own.keys():
        if not _near(theirs[place], own[place], tolerance):
            yield f"{place}: {theirs[place]} != {own[place]}"


def _near(theirs: Any, own: Any, tolerance: float) -> bool:
    if isinstance(theirs, list) and isinstance(own, list):
        return len(theirs) == len(own) and all(map(lambda a, b: _near(a, b, tolerance), theirs, own))
    if isinstance(theirs, float) and isinstance(own, float):
        return theirs == own or math.isclose(theirs, own, rel_tol=tolerance, abs_tol=tolerance)
    return bool(theirs == own)

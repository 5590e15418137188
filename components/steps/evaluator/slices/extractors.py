"""Extractors for TFMA: from batches of serialized examples to scored blocks of one slice each.

TFMA's own extractors decode every column, split batches into examples, and drop the name of a model's only output, so
that a ranker with one task could not be evaluated by task name, nor compared with a model of several tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_model_analysis as tfma
from numpy.typing import NDArray
from tensorflow_model_analysis.extractors import slice_key_extractor
from tensorflow_model_analysis.slicer import slicer_lib
from tensorflow_model_analysis.utils import model_util

from components.steps.evaluator.metrics.block import BLOCK, Block, Target, column, hashes, keys, numbers
from components.steps.evaluator.metrics.group_sums import AddGroupSums
from components.steps.evaluator.metrics.settings import Settings
from components.steps.evaluator.metrics.tfma_metrics import binary_tasks, settings_in
from components.steps.evaluator.metrics.totals_histogram import Floats
from components.steps.evaluator.models.probe import load_custom_ops
from components.steps.evaluator.slices.new_ids import features_with_known_ids
from schemas.contracts.export import KNOWN_IDS
from schemas.spec.metrics import new_id_slice

SliceSpecs = list[dict[str, str | None]]
"""For each slice, its features with the measured value; None: every value."""


def custom_extractors(eval_shared_model: Any, eval_config: tfma.EvalConfig, tensor_adapter_config: Any) -> list[Any]:
    """Returns the extractors; TFX finds this function by its name."""
    del tensor_adapter_config
    models = {model.model_name: model for model in model_util.verify_and_update_eval_shared_models(eval_shared_model)}
    specs = list(eval_config.model_specs)
    if len(specs) == 1:
        # TFMA calls a single model "", whatever its name.
        models = {specs[0].name: models[""]}
    slice_specs = [dict.fromkeys(spec.feature_keys) | dict(spec.feature_values) for spec in eval_config.slicing_specs]
    labels = {(spec.name, task): label for spec in specs for task, label in spec.label_keys.items()}
    targets = [target for target in labels if target[1] in binary_tasks(eval_config)]
    candidate = next(spec for spec in specs if not spec.is_baseline)
    known_id_slices = {new_id_slice(feature) for feature in features_with_known_ids(models[candidate.name].model_path)}
    needs_known_ids = known_id_slices & {name for slice_ in slice_specs for name in slice_}
    scored = {spec.name: models[spec.name] for spec in specs}
    stages = [
        (tfma.PREDICTIONS_KEY, beam.ParDo(_CallSignature(scored, specs[0].signature_name, tfma.PREDICTIONS_KEY))),
        *(
            [(KNOWN_IDS, beam.ParDo(_CallSignature({"": models[candidate.name]}, KNOWN_IDS, KNOWN_IDS)))]
            if needs_known_ids
            else []
        ),
        # The evaluator runs after the stage of this name.
        (
            slice_key_extractor.SLICE_KEY_EXTRACTOR_STAGE_NAME,
            _SlicedBlocks(settings_in(eval_config), slice_specs, labels, targets),
        ),
    ]
    return [tfma.extractors.Extractor(stage_name=name, ptransform=transform) for name, transform in stages]


class _CallSignature(model_util.DoFnWithModels):
    """Calls one signature of every model on serialized examples: {model: {output: array}}."""

    def __init__(self, models: Mapping[str, Any], signature: str, key: str) -> None:
        super().__init__({name: model.model_loader for name, model in models.items()})
        self._paths = [model.model_path for model in models.values()]
        self._signature = signature
        self._key = key

    def setup(self) -> None:
        for path in self._paths:
            load_custom_ops(path)
        super().setup()

    def process(self, element: dict[str, Any]) -> Iterator[dict[str, Any]]:
        records = tf.constant(_records(element), tf.string)
        yield element | {self._key: {name: self._called(model, records) for name, model in self._loaded_models.items()}}

    def _called(self, model: Any, records: Any) -> dict[str, Any]:
        signature = model.signatures[self._signature]
        # By name: given a positional argument, TensorFlow first formats all records into an unused error message.
        (name,) = signature.structured_input_signature[1]
        return {output: values.numpy() for output, values in signature(**{name: records}).items()}


class _SlicedBlocks(beam.PTransform):
    """Turns extracts of a batch into extracts of one block of one slice each."""

    def __init__(
        self, settings: Settings, slice_specs: SliceSpecs, labels: dict[Target, str], targets: Sequence[Target]
    ) -> None:
        super().__init__()
        self._settings = settings
        self._slice_specs = slice_specs
        self._labels = labels
        self._targets = targets

    def expand(self, batches: Any) -> Any:
        blocks = batches | "Blocks" >> beam.FlatMap(_blocks_by_slice, self._settings, self._slice_specs, self._labels)
        if self._settings.group is None and self._settings.list is None:
            return blocks
        return blocks | "GroupSums" >> AddGroupSums(self._settings, self._targets)


def _records(extracts: dict[str, Any]) -> list[Any]:
    return column(extracts[tfma.ARROW_RECORD_BATCH_KEY], tfma.constants.ARROW_INPUT_COLUMN)


def _blocks_by_slice(
    extracts: dict[str, Any], settings: Settings, slice_specs: SliceSpecs, labels: dict[Target, str]
) -> Iterator[dict[str, Any]]:
    batch = extracts[tfma.ARROW_RECORD_BATCH_KEY]
    values = {name: column(batch, column_name) for name, column_name in settings.columns.items()}
    block = _block(extracts, settings, values, labels)
    for feature, is_known in extracts.get(KNOWN_IDS, {}).get("", {}).items():
        values[new_id_slice(feature)] = [None if known else 1 for known in is_known.reshape(-1).tolist()]
    for slice_ in slice_specs:
        for key, rows in _rows_of(slice_, values, len(block)):
            yield {
                tfma.SLICE_KEY_TYPES_KEY: slicer_lib.slice_keys_to_numpy_array([key]),
                BLOCK: block if len(rows) == len(block) else block.where(rows),
            }


def _block(
    extracts: dict[str, Any], settings: Settings, values: dict[str, list[Any]], labels: dict[Target, str]
) -> Block:
    batch, predictions = extracts[tfma.ARROW_RECORD_BATCH_KEY], extracts[tfma.PREDICTIONS_KEY]
    ids = hashes(_records(extracts))
    weights = {task: numbers(column(batch, column_name)) for task, column_name in settings.weights.items()}
    by = settings.confidence.by
    drawn_by = ids if by is None else keys(values[by])
    groupings = {"group": settings.group, "list": settings.list}
    return Block(
        ids=ids,
        # An example without a value of `by` is a unit of its own.
        units=np.where(drawn_by > 0, drawn_by, ids),
        groups={name: keys(values[part.by]) for name, part in groupings.items() if part is not None},
        labels={
            task: _labels(batch, column_name, settings, task, weights) for (_, task), column_name in labels.items()
        },
        scores={(model, task): _scores(predictions[model].get(task), len(ids)) for model, task in labels},
        masked=frozenset(settings.masked),
        weights={task: np.nan_to_num(of_task, nan=0.0) for task, of_task in weights.items()},
    )


def _labels(batch: Any, column_name: str, settings: Settings, task: str, weights: Mapping[str, Floats]) -> Floats:
    """Returns a task's labels, NaN where there is none or the example is masked, as in training."""
    labels = numbers(column(batch, column_name))
    only_where = settings.masked.get(task)
    if only_where is not None:
        labels[numbers(column(batch, only_where)) != 1] = np.nan
    if task in settings.masked and task in weights:
        labels[np.isnan(weights[task])] = np.nan
    return labels


def _scores(values: NDArray[np.generic] | None, size: int) -> Floats:
    """Returns one score per example; NaN, which every gate refuses, where the model gives none or several."""
    if values is None or values.size != size:
        return np.full(size, np.nan)
    return values.reshape(size).astype(np.float64)


def _rows_of(
    slice_: dict[str, str | None], values: dict[str, list[Any]], size: int
) -> Iterator[tuple[tuple[tuple[str, Any], ...], NDArray[np.int64]]]:
    """Yields each slice's key, in TFMA's form, and the indices of its examples: those that have all its features."""
    names = sorted(slice_)
    if not names:
        yield (), np.arange(size)
        return
    rows: dict[tuple[Any, ...], list[int]] = {}
    columns: Sequence[list[Any]] = [values.get(name, [None] * size) for name in names]
    for row, values_of_row in enumerate(zip(*columns, strict=True)):
        if None not in values_of_row:
            rows.setdefault(values_of_row, []).append(row)
    for values_of_row, indices in rows.items():
        texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values_of_row]
        if all(slice_[name] in (None, str(text)) for name, text in zip(names, texts, strict=True)):
            yield tuple(zip(names, texts, strict=True)), np.array(indices)

"""TFMA's extractors up to the predictions; from there on examples stay together in blocks, one for each slice.

Predictions of a model with one output keep the output's name, which TFMA drops, so that a ranker of one task could not
be evaluated by task name, nor compared with a model of several tasks: `prefer_dict_outputs` is out of reach of the
public PredictionsExtractor.
https://github.com/tensorflow/model-analysis/blob/v0.47.0/tensorflow_model_analysis/extractors/predictions_extractor.py
"""

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from numpy.typing import NDArray
from tensorflow_model_analysis.extractors import features_extractor, predictions_extractor, slice_key_extractor
from tensorflow_model_analysis.slicer import slicer_lib
from tensorflow_model_analysis.utils import model_util

from components.evaluator import new_ids
from components.evaluator.group_sums import AddGroupSums
from components.evaluator.metrics import binary_tasks, settings_in
from components.evaluator.metrics_block import BLOCK, Block, Target, column, hashes, keys, numbers
from components.evaluator.metrics_settings import Settings
from components.evaluator.totals_histogram import Floats
from schemas.metrics import new_id_slice


def custom_extractors(eval_shared_model: Any, eval_config: tfma.EvalConfig, tensor_adapter_config: Any) -> list[Any]:
    """Returns the extractors; TFX calls it by name."""
    del tensor_adapter_config
    models = {model.model_name: model for model in model_util.verify_and_update_eval_shared_models(eval_shared_model)}
    specs = list(eval_config.model_specs)
    candidate = next(spec for spec in specs if not spec.is_baseline)
    # TFMA calls an only model "", whatever its name.
    shared = models[candidate.name if len(specs) > 1 else ""]
    slicing = [dict.fromkeys(spec.feature_keys) | dict(spec.feature_values) for spec in eval_config.slicing_specs]
    told = {new_id_slice(feature) for feature in new_ids.features_told_by(shared.model_path)}
    asked = told & {name for slice_ in slicing for name in slice_}
    return [
        features_extractor.FeaturesExtractor(eval_config=eval_config),
        _predictions(specs, models),
        *([new_ids.extractor(shared, candidate)] if asked else []),
        tfma.extractors.Extractor(
            # The evaluator runs after the stage of this name.
            stage_name=slice_key_extractor.SLICE_KEY_EXTRACTOR_STAGE_NAME,
            ptransform=_SlicedBlocks(settings_in(eval_config), slicing, _labels(specs), binary_tasks(eval_config)),
        ),
    ]


def _predictions(specs: list[Any], models: dict[str, Any]) -> Any:
    inference = model_util.ModelSignaturesDoFn(
        model_specs=specs,
        eval_shared_models=models,
        output_keypath=[tfma.PREDICTIONS_KEY],
        signature_names={"" if len(specs) == 1 else spec.name: [spec.signature_name] for spec in specs},
        prefer_dict_outputs=True,
    )
    return tfma.extractors.Extractor(
        stage_name=predictions_extractor.PREDICTIONS_EXTRACTOR_STAGE_NAME, ptransform=beam.ParDo(inference)
    )


def _labels(specs: list[Any]) -> dict[Target, str]:
    """Returns the column of the label of every task of every model."""
    return {(spec.name, task): label for spec in specs for task, label in spec.label_keys.items()}


class _SlicedBlocks(beam.PTransform):
    """Batches of extracts to extracts of one block of one slice each."""

    def __init__(
        self,
        settings: Settings,
        slicing: list[dict[str, str | None]],
        labels: dict[Target, str],
        binary: frozenset[str],
    ) -> None:
        super().__init__()
        self._settings = settings
        self._slicing = slicing
        self._labels = labels
        self._binary = binary

    def expand(self, batches: Any) -> Any:
        blocks = batches | "Blocks" >> beam.FlatMap(_sliced, self._settings, self._slicing, self._labels)
        if self._settings.group is None and self._settings.list is None:
            return blocks
        targets = [target for target in self._labels if target[1] in self._binary]
        return blocks | "GroupSums" >> AddGroupSums(self._settings, targets)


def _sliced(
    batch: dict[str, Any], settings: Settings, slicing: list[dict[str, str | None]], labels: dict[Target, str]
) -> Iterator[dict[str, Any]]:
    features = batch[tfma.FEATURES_KEY]
    size = len(batch[tfma.INPUT_KEY])
    values = {name: column(features, held_in, size) for name, held_in in settings.columns.items()}
    block = _block(batch, settings, values, labels)
    for feature, is_known in batch.get(new_ids.KNOWN_IDS, {}).items():
        is_new = ~np.asarray(is_known).reshape(size).astype(bool)
        values[new_id_slice(feature)] = [1 if new else None for new in is_new.tolist()]
    for slice_ in slicing:
        for key, rows in _rows_of(slice_, values, size):
            yield {
                tfma.SLICE_KEY_TYPES_KEY: slicer_lib.slice_keys_to_numpy_array([key]),
                BLOCK: block if len(rows) == size else block.where(rows),
            }


def _block(batch: dict[str, Any], settings: Settings, values: dict[str, list[Any]], labels: dict[Target, str]) -> Block:
    ids = hashes(batch[tfma.INPUT_KEY].reshape(-1).tolist())
    size, by = len(ids), settings.confidence.by
    predictions = batch[tfma.PREDICTIONS_KEY]
    groupings = {"group": settings.group, "list": settings.list}
    return Block(
        ids=ids,
        # An example without what is drawn by is drawn by itself.
        units=ids if by is None else np.where(keys(values[by]) > 0, keys(values[by]), ids),
        groups={name: keys(values[part.by]) for name, part in groupings.items() if part is not None},
        labels={
            task: numbers(column(batch[tfma.FEATURES_KEY], held_in, size)) for (_, task), held_in in labels.items()
        },
        scores={
            (model, task): _scores(predictions.get(model, {}) if model in predictions else predictions, task, size)
            for model, task in labels
        },
    )


def _scores(predictions: dict[str, Any], task: str, size: int) -> Floats:
    """Returns one score per example; NaN, which no gate lets pass, where the model gives none or several."""
    scores = np.asarray(predictions.get(task, np.zeros(0)))
    return scores.reshape(size).astype(np.float64) if scores.size == size else np.full(size, np.nan)


def _rows_of(
    slice_: dict[str, str | None], values: dict[str, list[Any]], size: int
) -> Iterator[tuple[tuple[tuple[str, Any], ...], NDArray[np.int64]]]:
    """Yields the key of each slice in TFMA's form and its examples; none where the features are not there."""
    if not slice_:
        yield (), np.arange(size)
        return
    names = sorted(slice_)
    rows: dict[tuple[Any, ...], list[int]] = {}
    columns: Sequence[list[Any]] = [values.get(name, [None] * size) for name in names]
    for row, found in enumerate(zip(*columns, strict=True)):
        if None not in found:
            rows.setdefault(found, []).append(row)
    for found, chosen in rows.items():
        texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in found]
        if all(slice_[name] in (None, str(text)) for name, text in zip(names, texts, strict=True)):
            yield tuple(zip(names, texts, strict=True)), np.array(chosen)

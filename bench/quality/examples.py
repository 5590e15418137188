"""The examples of a spec: its own conversion and Transform, run once, written in the order of the logs.

One file a day, named as the pipeline's steps name theirs, so that every order of training can be measured.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import schema_utils
from tfx_bsl.tfxio.tensor_adapter import TensorAdapter, TensorAdapterConfig
from tfx_bsl.tfxio.tensor_representation_util import InferTensorRepresentationsFromMixedSchema
from tfx_bsl.tfxio.tensor_to_arrow import TensorsToRecordBatchConverter

from components.examples.writer import BlockWriter
from components.logs.files.local_files import LocalStorage
from components.logs.files.resolve import DataFile, resolve
from components.logs.readers import formats
from components.logs.rows.conversion import convert
from components.steps.transform.analysis import Analyze
from pipelines.beam import BEAM_ARGS
from schemas.contracts.statistics import Statistics, completed, to_analyze
from schemas.derived.columns import columns
from schemas.spec import Spec, digest
from schemas.spec.data import TRAIN
from trainer_module.transforms.preprocessing import numbers_fn, preprocessing_fn

Splits = Mapping[str, tuple[str, ...]]
"""Files of transformed examples by split."""

_BATCH_ROWS, _FILES_AT_ONCE = 16_384, 16
_TYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}


def examples(spec: Spec, date: str, data_root: Path, folder: Path) -> Splits:
    """Returns the examples that a run of `date` trains and evaluates on; made on the first call, below `folder`."""
    files = resolve(spec.data, date, str(data_root), LocalStorage())
    listed = "\n".join(f"{file.split} {file.path} {file.facts}" for file in files.files)
    name = hashlib.sha256(f"{digest(spec.inputs())}\nblocks by day\n{listed}".encode()).hexdigest()[:16]
    if not (folder / name).exists():
        making = folder / f"{name}.making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        _write(spec, {split: files.of_split(split) for split in files.splits}, making)
        shutil.rmtree(making / "temporary")
        making.rename(folder / name)
    return {split: tuple(map(str, sorted((folder / name / split).iterdir()))) for split in files.splits}


def _write(spec: Spec, files: Mapping[str, Sequence[DataFile]], folder: Path) -> None:
    raw_spec = {column.name: tf.io.VarLenFeature(_TYPES[column.type]) for column in columns(spec)}
    schema = schema_utils.schema_from_feature_spec(raw_spec)
    (some,) = _batches(spec, files[TRAIN][:1])[:1]
    adapter = TensorAdapterConfig(some.schema, InferTensorRepresentationsFromMixedSchema(schema))
    inputs, temporary = spec.inputs(), folder / "temporary"
    analyze = Analyze(numbers_fn, inputs, to_analyze(inputs, ()))
    parts = (files[TRAIN][start : start + _FILES_AT_ONCE] for start in range(0, len(files[TRAIN]), _FILES_AT_ONCE))
    found = analyze.found(analyze.summaries_of(batch for part in parts for batch in _batches(spec, part)))
    statistics = Statistics(code="", features=completed(inputs, {}, found))
    config = {"inputs": inputs.model_dump_json(), "statistics": statistics.model_dump_json()}
    with _pipeline() as pipeline, tft_beam.Context(temp_dir=str(temporary)):
        # No row is needed any more, but TensorFlow Transform wants some.
        source = pipeline | beam.Create([some], reshuffle=False), adapter
        graph = source | tft_beam.AnalyzeDataset(lambda raw: preprocessing_fn(raw, config))
        _ = graph | tft_beam.WriteTransformFn(str(folder))
    transform = _Transform(folder, TensorAdapter(adapter))
    for split, of_split in files.items():
        (folder / split).mkdir()
        for day, of_day in groupby(of_split, key=lambda file: file.day):
            with BlockWriter(str(folder / split), day, 0) as writer:
                for batch in _batches(spec, of_day):
                    writer.write(transform(batch))


def _pipeline() -> beam.Pipeline:
    return beam.Pipeline(argv=list(BEAM_ARGS))


def _batches(spec: Spec, files: Iterable[DataFile]) -> list[pa.RecordBatch]:
    """Returns all rows in batches of one size, whatever the files': the graph's overhead is one of batches."""
    return list(pa.Table.from_batches(_converted(spec, files)).combine_chunks().to_batches(_BATCH_ROWS))


def _converted(spec: Spec, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
    read = columns(spec)
    for file in files:
        with open(file.path, "rb") as opened:
            for rows in formats.read(spec.data, opened, file.path, read):
                yield convert(rows.batch, read, file.path).batch


class _Transform:
    """Transform's saved graph, from record batches to record batches."""

    def __init__(self, folder: Path, adapter: TensorAdapter):
        self._layer, self._adapter = tft.TFTransformOutput(str(folder)).transform_features_layer(), adapter
        self._converter: Any = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the transformed rows of a batch, in its order."""
        made = self._layer(dict(self._adapter.ToBatchTensors(batch)))
        if self._converter is None:
            # Batches differ in their number of rows.
            kinds = {name: _any_rows(tensor) for name, tensor in made.items()}
            self._converter = TensorsToRecordBatchConverter(kinds)
        return self._converter.convert(made)


def _any_rows(tensor: Any) -> Any:
    shape = [None, *tensor.shape.as_list()[1:]]
    if isinstance(tensor, tf.SparseTensor):
        return tf.SparseTensorSpec([None, None], tensor.dtype)
    return tf.TensorSpec(shape, tensor.dtype)

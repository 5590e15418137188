"""The examples of a spec: its own conversion and Transform, run once, written in the order of the logs.

One file a day, named as the pipeline's steps name theirs, so that every order of training can be measured.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import tensorflow_transform as tft

from bench.workload_files import write_transform
from sangam.components.examples.writer import BlockWriter
from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import DataFile, resolve
from sangam.components.logs.readers import formats
from sangam.components.logs.rows.conversion import convert
from sangam.components.steps.transform.tensors import rows_of, tensors_of
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import Spec, digest
from sangam.schemas.spec.data import TRAIN, SplitLogs

Splits = Mapping[str, tuple[str, ...]]
"""Files of transformed examples by split."""

_BATCH_ROWS = 16_384


def examples(spec: Spec, date: str, data_root: Path, folder: Path) -> Splits:
    """Returns the examples that a run of `date` trains and evaluates on; made on the first call, below `folder`."""
    assert not isinstance(spec.data, SplitLogs) or not spec.data.splits.held_out, "a file's rows are of one split here"
    files = resolve(spec.data, date, str(data_root), LocalStorage())
    listed = "\n".join(f"{file.split} {file.path} {file.facts}" for file in files.files)
    name = hashlib.sha256(f"{digest(spec.inputs())}\nblocks by day\n{listed}".encode()).hexdigest()[:16]
    if not (folder / name).exists():
        making = folder / f"{name}.making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        _write(spec, {split: files.of_split(split) for split in files.splits}, making)
        making.rename(folder / name)
    return {split: tuple(map(str, sorted((folder / name / split).iterdir()))) for split in files.splits}


def _write(spec: Spec, files: Mapping[str, Sequence[DataFile]], folder: Path) -> None:
    write_transform(spec.inputs(), str(folder), *_batches(spec, files[TRAIN]))
    output = tft.TFTransformOutput(str(folder))
    read, transform = list(output.raw_feature_spec()), output.transform_features_layer()
    for split, of_split in files.items():
        (folder / split).mkdir()
        for day, of_day in groupby(of_split, key=lambda file: file.day):
            with BlockWriter(str(folder / split), day, 0) as writer:
                for batch in _batches(spec, of_day):
                    writer.write(rows_of(transform(tensors_of(batch, read))))


def _batches(spec: Spec, files: Iterable[DataFile]) -> list[pa.RecordBatch]:
    """Returns all rows in batches of one size, whatever the files': the graph's overhead is one of batches."""
    return list(pa.Table.from_batches(_converted(spec, files)).combine_chunks().to_batches(_BATCH_ROWS))


def _converted(spec: Spec, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
    read = columns(spec)
    for file in files:
        with open(file.path, "rb") as opened:
            for rows in formats.read(spec.data, opened, file.path, read):
                yield convert(rows.batch, read, file.path).batch

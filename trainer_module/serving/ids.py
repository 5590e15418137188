"""The ids behind a model's rows, kept beside it: a row lies under a hash, from which no id can be computed."""

import logging
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.example_files import BLOCK_ROWS, lengths_of, values_of
from sangam.schemas.contracts.export import (
    ID_COLUMN,
    IDS_FOLDER,
    IDS_REPORT_FILE,
    IdsReport,
    KeptIds,
    ids_file,
)
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.groups import KEY_ID_BITS, groups_of
from sangam.schemas.derived.ids import declared_ids, id_columns, type_of_ids
from sangam.schemas.parts.columns import IdType
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_keys
from sangam.trainer_module.input.blocks import Table
from sangam.trainer_module.input.ending import untuned
from sangam.trainer_module.serving.raw_columns import TYPES
from sangam.trainer_module.transforms.keys import id_keys

_LOG = logging.getLogger("sangam.trainer_module.export")
_BLOCKS_AT_ONCE = 16
_ZLIB_LEVEL = 1

# Shape suffixes: n ids; k keys of a table.


def write_ids(job: TrainJob, model_dir: Path) -> None:
    """Writes the ids of the trained rows beside a model, and a report.

    They are looked for in the base's ids and in the logs, until each row has its own. An id counts only if the hash of
    it is a key of the trained rows, so that no file is believed.
    """
    started = time.monotonic()
    tables = id_columns(job.ranker)
    found = {table: _Ids(job.ranker.table_tags()[table], keys) for table, keys in _keys(job, tables).items()}
    for table, ids in found.items():
        ids.add(tf.constant(declared_ids(job.ranker, table), tf.string))
        for columns in _read(_base_files(job, table), {ID_COLUMN: type_of_ids(tables[table])}):
            ids.add(columns[ID_COLUMN])
    wanted = {name: kind for columns in tables.values() for name, kind in columns.items()}
    for columns in _read(job.id_files, wanted):
        for table, names in tables.items():
            ids = found[table]
            if not ids.is_complete:
                ids.add(tf.concat([columns[name] for name in names], 0))
        if all(ids.is_complete for ids in found.values()):
            break
    (model_dir / IDS_FOLDER).mkdir(parents=True)
    kept = {}
    for table, ids in found.items():
        kind, file = type_of_ids(tables[table]), model_dir / ids_file(table)
        texts = ids.texts()
        _write(file, texts, kind)
        kept[table] = KeptIds(type=kind, ids=len(texts), rows=ids.num_rows, bytes=file.stat().st_size)
        _LOG.info("ids table=%s %s", table, " ".join(f"{key}={value}" for key, value in kept[table]))
    report = IdsReport(tables=kept, seconds=round(time.monotonic() - started, 3))
    (model_dir / IDS_REPORT_FILE).write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


class _Ids:
    """The ids of a table's keys, as far as they were seen."""

    def __init__(self, tag: int, keys_k: NDArray[Any]):
        """Takes the table's tag, and the keys of its group's rows."""
        self._tag, self._keys = tag, np.sort(keys_k[keys_k >> KEY_ID_BITS == tag])
        self._is_found = np.zeros(len(self._keys), bool)
        self._parts: list[NDArray[Any]] = []
        self.num_rows = len(self._keys)

    @property
    def is_complete(self) -> bool:
        return bool(self._is_found.all())

    def add(self, texts_n: tf.Tensor) -> None:
        """Keeps those of the ids that have a row and are new."""
        if not self.num_rows:
            return
        texts_n = tf.unique(texts_n)[0]
        keys_n = id_keys(self._tag, texts_n).numpy()
        place_n = np.minimum(np.searchsorted(self._keys, keys_n), self.num_rows - 1)
        (new,) = np.nonzero((self._keys[place_n] == keys_n) & ~self._is_found[place_n])
        # Of two ids with one hash, the first one seen has the row.
        places, first = np.unique(place_n[new], return_index=True)
        self._is_found[places] = True
        self._parts.append(tf.gather(texts_n, new[np.sort(first)]).numpy())

    def texts(self) -> list[bytes]:
        """Returns the ids in the order in which they were seen."""
        return [text for part in self._parts for text in part.tolist()]


def _keys(job: TrainJob, tables: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Returns the keys of the rows of each table's group."""
    checkpoint = Path(job.final_checkpoint)
    manifest = read_manifest(checkpoint)
    return {
        table: keys
        for group in groups_of(job.ranker).values()
        if (of_ids := tables.keys() & group.tags.keys())
        for keys in [read_keys(checkpoint, manifest, group.name)]
        for table in sorted(of_ids)
    }


def _base_files(job: TrainJob, table: str) -> list[str]:
    file = Path(job.base_model, ids_file(table))
    if job.base_model and not file.is_file():
        _LOG.warning("ids table=%s base=%s problem=no_ids_kept_there", table, job.base_model)
    return [str(file)] if job.base_model and file.is_file() else []


@tf.autograph.experimental.do_not_convert  # It would take seconds, and nothing here needs it.
def _read(files: Sequence[str], types: Mapping[str, IdType]) -> Iterator[dict[str, tf.Tensor]]:
    """Yields the values of columns as texts, some blocks at a time: {column: [n] string}."""
    table = Table({name: TYPES[kind] for name, kind in types.items()})

    def values(blocks_W: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = table.ragged(table.decode(blocks_W))
        return {name: _as_texts(column.flat_values) for name, column in columns.items()}

    if files:
        yield from untuned(tf.data.TFRecordDataset(list(files)).batch(_BLOCKS_AT_ONCE).map(values).prefetch(2))


def _as_texts(values_n: tf.Tensor) -> tf.Tensor:
    return values_n if values_n.dtype == tf.string else tf.strings.as_string(values_n)


def _write(file: Path, texts: Sequence[bytes], kind: IdType) -> None:
    """Writes ids as blocks of one column."""
    with tf.io.TFRecordWriter(str(file)) as writer:
        for start in range(0, len(texts), BLOCK_ROWS):
            part = texts[start : start + BLOCK_ROWS]
            example = tf.train.Example()
            values = example.features.feature[values_of(ID_COLUMN)]
            if kind == "int":
                values.int64_list.value.extend(map(int, part))
            else:
                values.bytes_list.value.extend(part)
            example.features.feature[lengths_of(ID_COLUMN)].int64_list.value.extend([1] * len(part))
            writer.write(zlib.compress(example.SerializeToString(deterministic=True), _ZLIB_LEVEL))

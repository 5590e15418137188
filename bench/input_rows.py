"""Random rows of a spec's columns, as ingestion writes them, Transform's graph for them, and the rows transformed."""

import functools
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_transform.tf_metadata import schema_utils

from components.examples.writer import BlockWriter
from components.steps.transform.analysis import Analyze
from components.steps.transform.graph import write_graph
from components.steps.transform.mapping import MapFile, ToMap
from schemas.contracts.statistics import Statistics, completed, to_analyze
from schemas.derived.columns import Column, columns
from schemas.loading import load_spec
from schemas.spec import RankerSpec
from trainer_module.transforms.preprocessing import numbers_fn, preprocessing_fn

_TYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}
ROWS_AT_ONCE, _WARM_ROWS = 4096, 1024
_LIST_LENGTH = 10
"""On average."""
_NUMBERS, _IDS, _LISTS = 1200, 600, 200
"""Features of the spec `wide`."""


@dataclass(frozen=True)
class Written:
    """Files of the same rows.

    Attributes:
        graph: Transform's.
        files: `in_pool`, as ingestion writes them, and `ahead`, as the transform step does.
        bytes: of a row, likewise.
        map_cpu_us: microseconds of CPU in which the transform step reads, transforms and writes a row.
    """

    graph: str
    files: dict[str, tuple[str, ...]]
    bytes: dict[str, float]
    map_cpu_us: float


def ranker_of(spec: str) -> RankerSpec:
    """Returns the ranker of a file, or `wide`."""
    return _wide() if spec == "wide" else load_spec(Path(spec)).ranker()


Rows = Callable[[RankerSpec, int], pa.RecordBatch]
"""From a spec and a seed to `ROWS_AT_ONCE` rows of its columns."""


def write_rows(declared: RankerSpec, folder: Path, rows: int, rows_of: Rows | None = None) -> Written:
    """Writes at least so many rows, which `rows_of` makes; None: random ones."""
    rows_of = rows_of or _batch
    folder.mkdir(exist_ok=True)
    graph, warm = str(folder / "graph"), folder / "warm"
    _write_graph(declared, graph, rows_of)
    raw = _write(folder / "in_pool", (rows_of(declared, start) for start in range(0, rows, ROWS_AT_ONCE)))
    mapper = MapFile(graph)
    mapper.setup()
    [first] = _write(warm, [rows_of(declared, 0)[:_WARM_ROWS]])
    mapper.process(ToMap(first, str(warm / "transformed")))
    (folder / "ahead").mkdir()
    ahead = tuple(str(folder / "ahead" / Path(file).name) for file in raw)
    started = time.process_time()
    for pair in zip(raw, ahead, strict=True):
        mapper.process(ToMap(*pair))
    cpu_us = (time.process_time() - started) * 1e6
    files, written = {"in_pool": raw, "ahead": ahead}, -(-rows // ROWS_AT_ONCE) * ROWS_AT_ONCE
    sizes = {where: sum(Path(file).stat().st_size for file in of) / written for where, of in files.items()}
    return Written(graph, files, sizes, cpu_us / written)


def _write(folder: Path, batches: Iterable[pa.RecordBatch]) -> tuple[str, ...]:
    folder.mkdir()
    with BlockWriter(str(folder), None, 0) as writer:
        for batch in batches:
            writer.write(batch)
    return tuple(str(folder / name) for name in writer.names)


def _batch(declared: RankerSpec, seed: int) -> pa.RecordBatch:
    read, generator = columns(declared), np.random.default_rng(seed)
    beside: dict[tuple[str, ...], Any] = {}
    arrays = []
    for column in read:
        group = tuple(sorted({column.name, *column.beside}))
        lengths = np.full(ROWS_AT_ONCE, column.length or 1)
        if column.is_list and not column.length:
            lengths = beside.setdefault(group, generator.integers(0, 2 * _LIST_LENGTH, ROWS_AT_ONCE))
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        arrays.append(pa.ListArray.from_arrays(offsets, _values(column, int(lengths.sum()), generator)))
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in read])


def _values(column: Column, count: int, generator: np.random.Generator) -> pa.Array:
    if column.type == "float":
        return pa.array(generator.random(count, np.float32))
    numbers = generator.integers(0, 2 if column.is_binary else 100_000, count)
    if column.time:
        numbers += 1_700_000_000
    if column.type == "int":
        return pa.array(numbers)
    return pa.array([b"id-%d" % number for number in numbers], pa.binary())


def _write_graph(declared: RankerSpec, folder: str, rows_of: Rows) -> None:
    inputs = declared.inputs()
    analyze = Analyze(numbers_fn, inputs, to_analyze(inputs, ()))
    found = analyze.found(analyze.summaries_of([rows_of(declared, 0)]))
    statistics = Statistics(code="", features=completed(inputs, {}, found))
    config = {"inputs": inputs.model_dump_json(), "statistics": statistics.model_dump_json()}
    features = {column.name: tf.io.VarLenFeature(_TYPES[column.type]) for column in columns(inputs)}
    schema = schema_utils.schema_from_feature_spec(features)
    write_graph(folder, functools.partial(preprocessing_fn, custom_config=config), schema)


def _wide() -> RankerSpec:
    """Returns a spec of 1,200 numbers, 600 ids and 200 lists of ids, in eight tables."""
    ids = {f"id_{n}": {"kind": "id", "type": "int", "table": f"table_{n % 8}"} for n in range(_IDS)}
    lists = {
        f"ids_{n}": {"kind": "ids", "type": "int", "table": f"table_{n % 8}", "combiner": "mean"} for n in range(_LISTS)
    }
    numbers = {f"x_{n}": {"kind": "numeric", "log": n % 2 == 0} for n in range(_NUMBERS)}
    document = {
        "name": "wide",
        "tables": {f"table_{n}": {"dim": 8} for n in range(8)},
        "features": {**numbers, **ids, **lists},
        "tasks": {"like": {"kind": "binary"}},
        "model": {"kind": "shared_bottom", "bottom_units": [8], "tower_units": [8]},
        "training": {
            "batch_size_per_rank": 1024,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
            "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
        },
    }
    return RankerSpec.model_validate_json(json.dumps(document))

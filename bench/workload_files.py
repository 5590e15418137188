"""Files of the workload: rows as ingestion writes them, Transform's graph, and the rows transformed."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_transform.tf_metadata import schema_utils

from bench.workload import NUM_FLOATS, NUM_IDS, NUM_TASKS, Pool
from sangam.components.examples.writer import BlockWriter
from sangam.components.steps.transform.analysis import Analyze
from sangam.components.steps.transform.graph import write_graph
from sangam.components.steps.transform.mapping import MapFiles, ToMap
from sangam.schemas.contracts.statistics import FILE_NAME, Statistics, completed, to_analyze
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import Inputs, RankerSpec
from sangam.trainer_module.transforms.preprocessing import numbers_fn, preprocessing_fn

ROWS_AT_ONCE = 4096
_TYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}


@dataclass(frozen=True)
class Written:
    """Files of the same rows.

    Attributes:
        graph: Transform's.
        files: `in_pool`, as ingestion writes them, and `ahead`, as the transform step does.
    """

    graph: str
    files: dict[str, tuple[str, ...]]


def batch_of(pool: Pool, label: type = np.float32) -> pa.RecordBatch:
    """Returns a pool as rows of the workload; its keys are the ids."""
    drawn = {f"id_{n:02}": pool.keys[:, n] for n in range(NUM_IDS)}
    drawn |= {f"x_{n:02}": pool.floats[:, n] for n in range(NUM_FLOATS)}
    drawn |= {f"y_{n}": pool.labels[:, n].astype(label) for n in range(NUM_TASKS)}
    ends = pa.array(np.arange(len(pool.keys) + 1), pa.int32())
    lists = [pa.ListArray.from_arrays(ends, pa.array(np.ascontiguousarray(values))) for values in drawn.values()]
    return pa.RecordBatch.from_arrays(lists, list(drawn))


def write_rows(declared: RankerSpec, folder: Path, rows: int, pool_of: Callable[[int], Pool]) -> Written:
    """Writes at least so many rows, `ROWS_AT_ONCE` of each seed that `pool_of` is called with."""
    for where in ("in_pool", "ahead"):
        (folder / where).mkdir(parents=True)
    graph, seeds = str(folder / "graph"), range(0, rows, ROWS_AT_ONCE)
    write_transform(declared.inputs(), graph, batch_of(pool_of(0), np.int64))
    with BlockWriter(str(folder / "in_pool"), None, 0) as writer:
        for seed in seeds:
            writer.write(batch_of(pool_of(seed), np.int64))
    raw = tuple(str(folder / "in_pool" / name) for name in writer.names)
    ahead = tuple(str(folder / "ahead" / name) for name in writer.names)
    mapper = MapFiles(graph)
    mapper.setup()
    for pair in zip(raw, ahead, strict=True):
        mapper.process((ToMap(*pair, rows=rows),))
    return Written(graph, {"in_pool": raw, "ahead": ahead})


def write_transform(inputs: Inputs, folder: str, *batches: pa.RecordBatch) -> None:
    """Writes Transform's graph with the statistics of batches."""
    analyze = Analyze(numbers_fn, inputs, to_analyze(inputs, ()))
    found = analyze.found(analyze.summaries_of(batches))
    statistics = Statistics(code="", features=completed(inputs, {}, found))
    config = {"inputs": inputs.model_dump_json(), "statistics": statistics.model_dump_json()}
    features = {column.name: tf.io.VarLenFeature(_TYPES[column.type]) for column in columns(inputs)}
    schema = schema_utils.schema_from_feature_spec(features)
    write_graph(folder, functools.partial(preprocessing_fn, custom_config=config), schema)
    Path(folder, FILE_NAME).write_text(statistics.model_dump_json(), encoding="utf-8")

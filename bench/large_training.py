"""Fabricates the outputs of a training with many rows: `python -m bench.large_training FOLDER ROWS FORM TYPE`.

A ranker of one user with many candidates: the user's id, a history of 50 posts and 20 interests, the candidate's post,
author and numbers. One physical table, whose rows are trained with Adam: 48 floats each for an embedding of 16.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from bench.jobs import job_in
from bench.loaded_export import HISTORY, requests
from bench.workload_files import write_transform
from sangam.schemas.contracts.export import CHECK_EXAMPLES_FILE, CHECK_SCORES_FILE
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.groups import groups_of
from sangam.schemas.spec import RankerSpec, digest
from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
from sangam.trainer_module.checkpoint.manifest import Manifest
from sangam.trainer_module.checkpoint.writer import Contents, write
from sangam.trainer_module.embedding.hashing import owner_of
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.input.raw_examples import first_examples
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.serving.writing import served_ranker
from sangam.trainer_module.snapshot import RowsSnapshot, Snapshot
from sangam.trainer_module.transforms.keys import id_keys

DIM, RANKS = 16, 2
_NUM_CHECKED = 200


def ranker(form: str, rows: str) -> RankerSpec:
    """Returns the declaration."""
    tables = ("users", "posts", "authors", "interests")
    return RankerSpec.model_validate_json(
        json.dumps(
            {
                "name": "large",
                "tables": {table: {"dim": DIM} for table in tables},
                "features": {
                    "user": {"kind": "id", "type": "int", "table": "users"},
                    "history": {"kind": "sequence", "type": "int", "table": "posts", "max_length": HISTORY},
                    "interests": {"kind": "ids", "type": "int", "table": "interests", "combiner": "mean"},
                    "post": {"kind": "id", "type": "int", "table": "posts"},
                    "author": {"kind": "id", "type": "int", "table": "authors"},
                    "age_s": {"kind": "numeric"},
                    "length_s": {"kind": "numeric"},
                },
                "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression"}},
                "model": {"kind": "mmoe"},
                "training": {
                    "batch_size_per_rank": 4096,
                    "dense_optimizer": {"kind": "adam", "learning_rate": 0.001},
                    "embedding_optimizer": {"kind": "adam", "learning_rate": 0.001},
                },
                "cluster": {"ranks": RANKS},
                "export": {"form": form, "rows": rows},
            }
        )
    )


def main(folder: str, num_rows: str, form: str, rows: str) -> None:
    """Writes the job and its inputs, unless they exist."""
    root, declared = Path(folder), ranker(form, rows)
    if not (root / "checkpoint").exists():
        _write_transform(root / "transform", declared)
        _write_checkpoint(root / "checkpoint", declared, int(num_rows))
        _write_examples(root / "examples", requests(_NUM_CHECKED, int(num_rows)))
    own = root / f"{form}-{rows}"
    _, job = job_in(
        own,
        declared,
        check_files=tuple(map(str, (root / "examples").iterdir())),
        transform_graph=str(root / "transform"),
        model_dir=str(own / "model"),
        final_checkpoint=str(root / "checkpoint"),
    )
    _write_scores(job, Path(job.output_dir))


def _write_transform(folder: Path, declared: RankerSpec) -> None:
    import pyarrow as pa

    kinds = {"int": pa.int64(), "float": pa.float32(), "string": pa.large_binary()}
    read = columns(declared)
    rows = [pa.array([[0], [1]], pa.list_(kinds[column.type])) for column in read]
    batch = pa.RecordBatch.from_arrays(rows, [column.name for column in read])
    write_transform(declared.inputs(), str(folder), batch)


def _write_checkpoint(target: Path, declared: RankerSpec, num_rows: int) -> None:
    """Writes a checkpoint of two ranks: rows are multiples of their key's low bits, slots are ones."""
    (group,) = groups_of(declared).values()
    ids = num_rows // len(group.tags)
    keys = np.concatenate([id_keys(tag, tf.range(ids, dtype=tf.int64)).numpy() for tag in group.tags.values()])
    owners = np.concatenate([owner_of(tf.constant(part), RANKS).numpy() for part in np.array_split(keys, 20)])
    model = Ranker(declared)
    weights = model.weights.by_name(model.weights.initial(seed=1))
    for rank in reversed(range(RANKS)):
        mine = np.random.default_rng(rank).permutation(keys[owners == rank])
        rows = np.ones([len(mine), group.width], np.float32)
        rows[:, :DIM] = ((mine & 0xFFFF) / 0x8000 - 1.0)[:, None] * np.linspace(-1.0, 1.0, DIM)
        manifest = Manifest(
            step=1,
            ranks=RANKS,
            spec_digest=digest(declared),
            job_digest="bench",
            seed=1,
            days=(),
            position=Position(),
            groups=group_layouts(declared),
            weights=weight_layouts(model.weights.weights),
        )
        dense = {f"weights/{name}": weight for name, weight in weights.items()}
        snapshot = Snapshot(1, dense, {group.name: RowsSnapshot(mine, rows)}, {})
        write(target, Contents(manifest, snapshot, np.zeros((0, 2), np.int64), b"{}", {}), rank, deadline_s=1.0)


def _write_examples(folder: Path, given: dict[str, np.ndarray]) -> None:
    import pyarrow as pa

    from sangam.components.examples.writer import BlockWriter

    columns = {name: values for name, values in given.items() if not name.endswith("_length") or name == "length_s"}
    columns |= {"like": np.arange(_NUM_CHECKED) % 2, "watch": np.full(_NUM_CHECKED, 0.5, np.float32)}
    lists = []
    for values in columns.values():
        ends = np.arange(_NUM_CHECKED + 1, dtype=np.int32) * (values.size // _NUM_CHECKED)
        lists.append(pa.ListArray.from_arrays(pa.array(ends), pa.array(values.ravel())))
    folder.mkdir()
    with BlockWriter(str(folder), None, 0) as writer:
        writer.write(pa.RecordBatch.from_arrays(lists, list(columns)))


def _write_scores(job: TrainJob, output: Path) -> None:
    """Writes the scores that the export must reproduce."""
    raw = first_examples(job.check_files, _NUM_CHECKED)
    with tf.io.TFRecordWriter(str(output / CHECK_EXAMPLES_FILE)) as writer:
        for example in raw:
            writer.write(example)
    served = served_ranker(job, job.ranker.export.model_copy(update={"form": "stock", "rows": "float32"}))
    np.savez(output / CHECK_SCORES_FILE, **{t: s.numpy() for t, s in served.serve_examples(tf.constant(raw)).items()})


if __name__ == "__main__":
    main(*sys.argv[1:])

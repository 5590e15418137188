"""A committed checkpoint and exported model, which the present code must read.

A change after which it cannot needs another format number: raise it, then run
`python -m tests.trainer_module.committed_formats`, which writes both anew.
"""

import base64
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sangam.schemas.spec import RankerSpec
from tests.golden_files import FOLDER as GOLDEN

CHECKPOINT_FOLDER, EXPORT_FOLDER = GOLDEN / "formats" / "checkpoint", GOLDEN / "formats" / "export"
CHECKPOINT, MODEL = "checkpoint", "model"
EXPECTED_STATE, EXPECTED_SCORES = "expected.npz", "expected.json"

_NUM_ROWS = 24
_USERS = ["ann", "bob", "cid"]
_TAGS = [f"t{number}" for number in range(4)]


def state_of(checkpoint: Path, *, ranks: int) -> dict[str, np.ndarray]:
    """Returns what some ranks restore: dense weights and moments by name, and the bits of rows in their keys' order."""
    from sangam.trainer_module.checkpoint.manifest import read_manifest
    from sangam.trainer_module.checkpoint.restore import read_snapshot
    from tests.trainer_module.checkpoint.sample_checkpoints import by_key

    manifest = read_manifest(checkpoint)
    parts = [read_snapshot(checkpoint, manifest, rank=rank, ranks=ranks) for rank in range(ranks)]
    state = {f"dense/{name}": array for name, array in parts[0].dense.items()}
    for group, layout in manifest.groups.items():
        held = [by_key(part.groups[group]) for part in parts]
        keys = np.concatenate([part.keys for part in held])
        rows = np.concatenate([part.rows for part in held])
        order = np.argsort(keys)
        assert rows.shape[1] == layout.width
        state[f"keys/{group}"], state[f"rows/{group}"] = keys[order], rows[order].view(np.uint32)
    return state


def _write_checkpoint(folder: Path) -> None:
    from tests.trainer_module.checkpoint.sample_checkpoints import GROUPS, all_rows, spread, write_all

    write_all(folder / CHECKPOINT, spread(2, _NUM_ROWS), ranks=2)
    state = state_of(folder / CHECKPOINT, ranks=1)
    for group in GROUPS:
        # What was written, not what the reader makes of it.
        keys, rows = all_rows(group, _NUM_ROWS)
        np.testing.assert_array_equal(state[f"rows/{group}"], rows[np.argsort(keys)].view(np.uint32))
    np.savez_compressed(folder / EXPECTED_STATE, **state)


def _ranker() -> RankerSpec:
    """Returns the smallest ranker with an id, a list, a number and a task."""
    document = {
        "name": "tiny",
        "tables": {"users": {"dim": 2}, "tags": {"dim": 2}},
        "features": {
            "user": {"kind": "id", "type": "string", "table": "users"},
            "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean", "max_values": 3},
            "age": {"kind": "numeric", "normalize": "zscore", "missing": 40.0},
        },
        "tasks": {"like": {"kind": "binary"}},
        "model": {"kind": "single_task", "tower_units": [2]},
        "training": {
            "batch_size_per_rank": 64,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
            "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
        },
        "export": {"ids": True},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


def _examples() -> tuple[list[dict[str, list[Any]]], list[bytes]]:
    """Returns rows, unknown ids, empty lists and missing numbers among them, and the same as raw examples."""
    import tensorflow as tf

    generator, rows, raw = np.random.default_rng(3), [], []
    for number in range(12):
        row: dict[str, list[Any]] = {
            "user": [str(generator.choice([*_USERS, "stranger"]))],
            "tags": [str(tag) for tag in generator.choice([*_TAGS, "x"], number % 5)],
            "age": [float(generator.integers(10, 80))] if number % 4 else [],
            "like": [number % 2],
        }
        example = tf.train.Example()
        for name in ("user", "tags"):
            example.features.feature[name].bytes_list.value.extend(value.encode() for value in row[name])
        if row["age"]:
            example.features.feature["age"].float_list.value.extend(row["age"])
        rows.append(row)
        raw.append(example.SerializeToString(deterministic=True))
    return rows, raw


def _write_export(folder: Path) -> None:
    import tensorflow as tf

    from sangam.schemas.contracts.export import SERVE
    from sangam.schemas.contracts.training_job import TrainJob
    from sangam.schemas.derived.groups import groups_of
    from sangam.schemas.spec import digest
    from sangam.trainer_module.serving.writing import write
    from sangam.trainer_module.transforms.keys import id_keys
    from tests.trainer_module.sample_blocks import write_blocks
    from tests.trainer_module.serving.sample_training import write_checkpoint
    from tests.trainer_module.transforms.analysis import analyzed

    ranker, (rows, raw) = _ranker(), _examples()
    generator, ids, learned = np.random.default_rng(4), {"users": _USERS, "tags": _TAGS}, {}
    vectors: dict[str, dict[str, list[float]]] = {}
    for name, group in groups_of(ranker).items():
        keys = np.concatenate([id_keys(tag, tf.constant(ids[table])).numpy() for table, tag in group.tags.items()])
        rows_of_ids = generator.normal(size=[len(keys), group.dim]).astype(np.float32)
        learned[name], left = (keys, rows_of_ids), iter(rows_of_ids.tolist())
        vectors |= {table: dict(zip(ids[table], left, strict=False)) for table in group.tags}
    _, transform = analyzed(ranker.inputs(), rows)
    with tempfile.TemporaryDirectory() as directory:
        write_checkpoint(Path(directory, "checkpoint"), ranker, learned)
        write_blocks(Path(directory, "examples.blocks"), raw)
        job = TrainJob(
            ranker=ranker,
            spec_digest=digest(ranker),
            train_files=(),
            id_files=(f"{directory}/examples.blocks",),
            transform_graph=str(Path(transform.transform_savedmodel_dir).parent),
            model_dir=str(folder / MODEL),
            output_dir=directory,
            final_checkpoint=f"{directory}/checkpoint",
            checkpoint_dir=f"{directory}/checkpoints",
            log_dir=f"{directory}/logs",
        )
        write(job, Path(job.model_dir))
    answer = tf.saved_model.load(job.model_dir).signatures[SERVE](examples=tf.constant(raw))
    expected = {
        "examples": [base64.b64encode(example).decode() for example in raw],
        "scores": {task: scores.numpy()[:, 0].tolist() for task, scores in answer.items()},
        "vectors": vectors,
    }
    (folder / EXPECTED_SCORES).write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Writes both folders anew."""
    for folder, write in ((CHECKPOINT_FOLDER, _write_checkpoint), (EXPORT_FOLDER, _write_export)):
        with tempfile.TemporaryDirectory() as directory:
            write(Path(directory))
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(directory, folder)
        print(f"{folder}: written; commit it")


if __name__ == "__main__":
    main()

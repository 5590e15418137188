"""A fabricated training of a ranker with every kind of feature, ready to be exported, with real logs' gaps."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.schemas.contracts.statistics import FILE_NAME
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.groups import groups_of
from sangam.schemas.spec import RankerSpec, digest
from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
from sangam.trainer_module.checkpoint.manifest import Manifest, read_manifest
from sangam.trainer_module.checkpoint.restore import read_snapshot
from sangam.trainer_module.checkpoint.writer import Contents, write
from sangam.trainer_module.embedding.hashing import owner_of
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.snapshot import RowsSnapshot, Snapshot
from sangam.trainer_module.transforms.keys import id_keys
from tests.beam_args import BEAM_ARGS
from tests.fakes import mounted_store
from tests.trainer_module.sample_blocks import write_blocks

NUM_EXAMPLES = 600
RANKS = 2
USERS = [f"u{number}" for number in range(40)]
POSTS = list(range(1000, 1080))
TAGS = [f"t{number}" for number in range(20)]
"""Ids with a row; requests also hold others."""
VOCABULARY = "posts_of_transform"
"""An asset of Transform's graph."""

Values = Mapping[str, Sequence[Any]]
"""The values of one example's columns; missing ones are absent or empty."""


def declared(**export: str) -> RankerSpec:
    """Returns the ranker: columns with names that no input can have, two groups, a table with another default."""
    return RankerSpec.model_validate_json(
        json.dumps(
            {
                "name": "served",
                "tables": {
                    "users": {"dim": 8, "default_value": 0.25},
                    "posts": {"dim": 8},
                    "tags": {"dim": 4, "default_value": -0.5},
                },
                "features": {
                    "user": {"kind": "id", "type": "string", "table": "users", "column": "User ID", "missing": "u3"},
                    "friend": {"kind": "id", "type": "string", "table": "users"},
                    "post": {"kind": "id", "type": "int", "table": "posts", "column": "post-id"},
                    "history": {
                        "kind": "sequence",
                        "type": "int",
                        "table": "posts",
                        "max_length": 4,
                        "encoder": {"kind": "positional"},
                    },
                    "recent": {
                        "kind": "sequence",
                        "type": "int",
                        "table": "posts",
                        "max_length": 2,
                        "column": "history",
                    },
                    "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "sqrtn", "max_values": 3},
                    "age": {"kind": "numeric", "normalize": "zscore", "missing": 40.0},
                    "hour": {"kind": "numeric", "type": "int", "normalize": "minmax"},
                    "spent": {"kind": "numeric", "normalize": "zscore", "clip": [0, 50], "log": True},
                },
                "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression", "label": "seconds"}},
                "model": {"kind": "mmoe", "num_experts": 2, "expert_units": [16, 8], "tower_units": [8]},
                "training": {
                    "batch_size_per_rank": 64,
                    "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
                    "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
                },
                "cluster": {"ranks": RANKS},
                "export": export,
            }
        )
    )


def rows(count: int, *, seed: int = 0) -> list[dict[str, list[Any]]]:
    """Returns raw examples: known and unknown ids, missing values, empty lists, lists that are too long."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        lengths = generator.integers(0, 7, 2)
        row: dict[str, list[Any]] = {
            "User ID": [str(generator.choice([*USERS, "stranger"]))] if generator.random() > 0.1 else [],
            "friend": [str(generator.choice([*USERS, "nobody"]))] if generator.random() > 0.1 else [],
            "post-id": [int(generator.choice([*POSTS, 5, -7]))],
            "history": generator.choice([*POSTS, 6], lengths[0]).tolist(),
            "tags": [str(tag) for tag in generator.choice([*TAGS, "x"], lengths[1])],
            "age": [float(np.float32(generator.uniform(10, 80)))] if generator.random() > 0.1 else [],
            "hour": [int(generator.integers(0, 24))],
            "spent": [float(np.float32(generator.exponential(20)))] if generator.random() > 0.1 else [],
            "like": [int(generator.random() < 0.4)],
            "seconds": [float(generator.normal())],
        }
        found.append(row)
    return found


def encoded(row: Values) -> bytes:
    """Returns a raw example as ingestion writes it."""
    example = tf.train.Example()
    types = {column.name: column.type for column in columns(declared())}
    for name, values in row.items():
        if not values:
            continue
        feature = example.features.feature[name]
        match types[name]:
            case "string":
                feature.bytes_list.value.extend(value.encode() for value in values)
            case "int":
                feature.int64_list.value.extend(values)
            case _:
                feature.float_list.value.extend(values)
    return example.SerializeToString(deterministic=True)


def ranked(some: Sequence[Values]) -> dict[str, tf.Tensor]:
    """Returns the inputs of `rank` for these rows."""
    inputs: dict[str, Any] = {}
    for name, filler in (("User ID", ""), ("friend", ""), ("age", np.nan), ("spent", np.nan)):
        inputs[name.replace(" ", "_")] = tf.constant([row[name][0] if row[name] else filler for row in some])
    for name in ("post-id", "hour"):
        inputs[name.replace("-", "_")] = tf.constant([row[name][0] for row in some], tf.int64)
    for name, kind in (("history", tf.int64), ("tags", tf.string)):
        lists = tf.ragged.constant([row[name] for row in some], dtype=kind, row_splits_dtype=tf.int64)
        inputs[name], inputs[f"{name}_length"] = lists.to_tensor(), lists.row_lengths()
    return inputs


def write_transform(directory: Path) -> None:
    """Runs Transform over some examples; besides, it looks a vocabulary up, which is an asset."""
    import apache_beam as beam
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

    from sangam.trainer_module.transforms.preprocessing import preprocessing_fn
    from tests.trainer_module.transforms.analysis import config_of, statistics_of

    inputs = declared().inputs()
    statistics = statistics_of(inputs, rows(80))
    config = config_of(inputs, statistics)
    types = {"int": tf.int64, "float": tf.float32, "string": tf.string}
    spec = {column.name: tf.io.VarLenFeature(types[column.type]) for column in columns(inputs)}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(spec))

    def transform(raw: dict[str, Any]) -> dict[str, Any]:
        known = tft.compute_and_apply_vocabulary(raw["tags"], vocab_filename=VOCABULARY)
        outputs = preprocessing_fn(raw, config)
        nothing = 0.0 * tf.cast(tf.size(known.values), tf.float32)
        return outputs | {"hour": outputs["hour"] + nothing}

    with beam.Pipeline(argv=list(BEAM_ARGS)) as pipeline, tft_beam.Context(temp_dir=str(directory / "temporary")):
        graph = (pipeline | beam.Create(rows(80)), metadata) | tft_beam.AnalyzeDataset(transform)
        _ = graph | tft_beam.WriteTransformFn(str(directory))
    metadata_io.write_metadata(metadata, str(directory / tft.TFTransformOutput.RAW_METADATA_DIR))
    (directory / FILE_NAME).write_text(statistics.model_dump_json(), encoding="utf-8")


def embeddings() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns the keys and embeddings that training has left, by group."""
    generator = np.random.default_rng(4)
    ids: dict[str, Any] = {"users": USERS, "posts": POSTS, "tags": TAGS}
    found = {}
    for name, group in groups_of(declared()).items():
        keys = np.concatenate([id_keys(tag, tf.constant(ids[table])).numpy() for table, tag in group.tags.items()])
        found[name] = keys, generator.normal(size=[len(keys), group.dim]).astype(np.float32)
    return found


def write_checkpoint(
    target: Path, ranker: RankerSpec, learned: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None
) -> None:
    """Writes what two ranks would have left.

    Args:
        target: folder.
        ranker: whose dense weights are made up.
        learned: keys and embeddings by group; None: `embeddings()`.
    """
    from sangam.trainer_module.ranker import Ranker

    model = Ranker(ranker)
    generator = np.random.default_rng(5)
    dense = {
        f"weights/{weight.name}": generator.normal(scale=0.3, size=weight.shape).astype(np.float32)
        for weight in model.weights.weights
    }
    for rank in reversed(range(RANKS)):
        parts = {}
        for name, (keys, vectors) in (learned or embeddings()).items():
            mine = owner_of(tf.constant(keys), RANKS).numpy() == rank
            slots = np.full([int(mine.sum()), model.groups[name].width - vectors.shape[1]], 7.0, np.float32)
            parts[name] = RowsSnapshot(keys[mine], np.concatenate([vectors[mine], slots], axis=1))
        manifest = Manifest(
            step=3,
            ranks=RANKS,
            spec_digest=digest(ranker),
            job_digest="job",
            seed=1,
            days=(),
            position=Position(),
            groups=group_layouts(ranker),
            weights=weight_layouts(model.weights.weights),
        )
        contents = Contents(manifest, Snapshot(3, dense, parts, {}), np.zeros((0, 2), np.int64), b"{}", {})
        write(target, contents, rank, deadline_s=1.0)


def trained_job(directory: Path, world: Path, **export: str) -> TrainJob:
    """Returns the job of a finished training whose ranks' own scores are in its output.

    Args:
        directory: of this export.
        world: folder with `transform`, `checkpoint`, `examples.blocks` and the ranks' `output`.
        export: of the spec.
    """
    ranker = declared(**export)
    output = directory / "output"
    output.mkdir(parents=True)
    for file in (world / "output").iterdir():
        (output / file.name).write_bytes(file.read_bytes())
    return job_of(directory, world, ranker)


def job_of(directory: Path, world: Path, ranker: RankerSpec) -> TrainJob:
    """Returns a job whose output is in its own folder."""
    return TrainJob(
        ranker=ranker,
        spec_digest=digest(ranker),
        train_files=(),
        check_files=(str(world / "examples.blocks"),),
        transform_graph=str(world / "transform"),
        model_dir=str(directory / "model"),
        output_dir=str(directory / "output"),
        final_checkpoint=str(world / "checkpoint"),
        checkpoint_dir=str(directory / "checkpoints"),
        log_dir=str(directory / "logs"),
    )


def run_export(job: TrainJob) -> None:
    """Runs an export as the launcher does, where no folder can be renamed."""
    directory = Path(job.model_dir).parent
    job_file = directory / "job.json"
    job_file.write_text(job.model_dump_json())
    command = [sys.executable, "-m", "sangam.trainer_module.export", str(job_file), str(os.getpid())]
    environment = mounted_store.environment(directory)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]


def make_world(world: Path) -> None:
    """Writes all that training leaves for the export; the ranks' scores come from a trainer that holds the rows."""
    from sangam.trainer_module import collectives
    from sangam.trainer_module.check_scores import write_check
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    write_transform(world / "transform")
    write_checkpoint(world / "checkpoint", declared())
    write_blocks(world / "examples.blocks", map(encoded, rows(NUM_EXAMPLES, seed=1)), block_rows=100)
    (world / "output").mkdir()
    collectives.start()
    trainer = InStepTrainer(Ranker(declared()), rank=0, ranks=1)
    manifest = read_manifest(world / "checkpoint")
    trainer.restore(read_snapshot(world / "checkpoint", manifest, rank=0, ranks=1))
    write_check(job_of(world, world, declared()), 0, trainer.predict)

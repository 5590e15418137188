"""A small ranker with every kind of feature and task, its transformed examples, and jobs that train it."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from schemas.spec import Ranker, digest
from trainer_module.job import TrainJob

NUM_EXAMPLES = 1003
"""Odd, so that last batches are uneven and ranks run out of data at different times."""


def declared(**changes: Any) -> Ranker:
    """Returns the small ranker; `changes` replace parts of its training or cluster sections by name."""
    training: dict[str, Any] = {
        "batch_size_per_rank": 64,
        "shuffle_buffer": 1,
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
        "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
    }
    cluster: dict[str, Any] = {"ranks": 1, "data_workers": 0}
    for key, value in changes.items():
        (cluster if key in {"ranks", "data_workers", "deadline_s", "heartbeat_timeout_s"} else training)[key] = value
    return Ranker.model_validate_json(
        json.dumps(
            {
                "name": "small",
                "tables": {"users": {"dim": 8}, "posts": {"dim": 8}, "tags": {"dim": 4}},
                "features": {
                    "user": {"kind": "id", "type": "int", "table": "users"},
                    "post": {"kind": "id", "type": "int", "table": "posts"},
                    "history": {
                        "kind": "sequence",
                        "type": "int",
                        "table": "posts",
                        "max_length": 5,
                        "encoder": "positional",
                    },
                    "tags": {"kind": "ids", "type": "int", "table": "tags", "combiner": "sqrtn"},
                    "age": {"kind": "numeric"},
                },
                "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression", "weight": 0.5}},
                "model": {"kind": "mmoe", "num_experts": 2, "expert_units": [16, 8], "tower_units": [8]},
                "training": training,
                "cluster": cluster,
            }
        )
    )


def write_examples(directory: Path, num_files: int = 3) -> tuple[str, ...]:
    """Writes transformed examples with something to learn; returns the files."""
    generator = np.random.default_rng(0)
    directory.mkdir(parents=True, exist_ok=True)
    files = [str(directory / f"part-{number}.gz") for number in range(num_files)]
    writers = [tf.io.TFRecordWriter(file, options="GZIP") for file in files]
    for number in range(NUM_EXAMPLES):
        user, post = int(generator.integers(1, 60)), int(generator.integers(1000, 1080))
        age = float(generator.normal())
        logit = ((user * 7) % 13 - 6) / 3 + ((post * 5) % 11 - 5) / 3 + age
        ints = {
            "user": [user],
            "post": [post],
            "history": generator.integers(1000, 1080, generator.integers(0, 6)).tolist(),
            "tags": generator.integers(5000, 5020, generator.integers(0, 4)).tolist(),
        }
        floats = {"age": [age], "like": [float(generator.random() < 1 / (1 + np.exp(-logit)))], "watch": [logit]}
        feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=value)) for name, value in ints.items()}
        for name, value in floats.items():
            feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=value))
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        writers[number % num_files].write(example.SerializeToString())
    for writer in writers:
        writer.close()
    return tuple(files)


def job(directory: Path, ranker: Ranker, files: tuple[str, ...]) -> TrainJob:
    """Returns a job in its own folder; without Transform's graph it can be trained but not exported."""
    return TrainJob(
        ranker=ranker,
        spec_digest=digest(ranker),
        train_files=files,
        validation_files=files[:1],
        transform_graph="",
        model_dir=str(directory / "model"),
        output_dir=str(directory / "output"),
        log_dir=str(directory / "logs"),
    )


def write_job(directory: Path, ranker: Ranker, files: tuple[str, ...]) -> Path:
    """Writes a job file and its folders; returns the file."""
    made = job(directory, ranker, files)
    for folder in (made.log_dir, made.output_dir, made.state_dir):
        os.makedirs(folder, exist_ok=True)
    path = directory / "job.json"
    path.write_text(made.model_dump_json())
    return path


def read_rows(directory: Path, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns all ranks' keys and whole rows of a dimension, sorted by key."""
    parts = [np.load(file) for file in sorted((directory / "output" / "state").glob(f"rows-{dim}-*.npz"))]
    keys = np.concatenate([part["keys"] for part in parts])
    rows = np.concatenate([part["rows"] for part in parts])
    order = np.argsort(keys)
    return keys[order], rows[order]

"""A small ranker with every kind of feature and task, its transformed examples, and jobs that train it."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.schemas.contracts.example_files import file_name
from sangam.schemas.contracts.training_job import TrainJob, read_job
from sangam.schemas.derived.columns import EVENT_TIME
from sangam.schemas.spec import RankerSpec, digest
from sangam.trainer_module.input.raw_examples import first_examples
from sangam.trainer_module.launch.rank_group import clear_meeting
from sangam.trainer_module.transforms.keys import ID_BITS
from tests.trainer_module.rank_processes import run_processes
from tests.trainer_module.sample_blocks import write_blocks

FIRST_EVENT_S = 1_709_251_200
"""2024-03-01 00:00 UTC."""

NUM_EXAMPLES = 1003
"""Odd, so that last batches are uneven and ranks run out of data at different times."""
BLOCK_ROWS = 16
"""Of the files: few, so that there are many blocks."""


_CLUSTER = {
    "ranks",
    "threads_per_rank",
    "parameter_servers",
    "data_workers",
    "retries",
    "deadline_s",
    "heartbeat_timeout_s",
}


def declared(*, tables: dict[str, Any] | None = None, event_time: str | None = None, **changes: Any) -> RankerSpec:
    """Returns the small ranker.

    Args:
        tables: more settings of its tables, by name.
        event_time: column with the time of the event.
        changes: replace parts of its training or cluster sections by name.
    """
    training: dict[str, Any] = {
        "batch_size_per_rank": 64,
        "shuffle_buffer": 1,
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
        "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
    }
    cluster: dict[str, Any] = {"ranks": 1, "data_workers": 0}
    for key, value in changes.items():
        (cluster if key in _CLUSTER else training)[key] = value
    dims = {"users": 8, "posts": 8, "tags": 4}
    return RankerSpec.model_validate_json(
        json.dumps(
            {
                "name": "small",
                "event_time": event_time,
                "tables": {name: {"dim": dim, **(tables or {}).get(name, {})} for name, dim in dims.items()},
                "features": {
                    "user": {"kind": "id", "type": "int", "table": "users"},
                    "post": {"kind": "id", "type": "int", "table": "posts"},
                    "history": {
                        "kind": "sequence",
                        "type": "int",
                        "table": "posts",
                        "max_length": 5,
                        "encoder": {"kind": "positional"},
                    },
                    "tags": {"kind": "ids", "type": "int", "table": "tags", "combiner": "sqrtn"},
                    "age": {"kind": "numeric", "normalize": "zscore"},
                },
                "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression", "weight": 0.5}},
                "model": {"kind": "mmoe", "num_experts": 2, "expert_units": [16, 8], "tower_units": [8]},
                "training": training,
                "cluster": cluster,
            }
        )
    )


def write_examples(
    directory: Path, num_files: int = 3, num_examples: int = NUM_EXAMPLES, *, minutes_apart: int = 1
) -> tuple[str, ...]:
    """Writes transformed examples with something to learn, an event a minute by default; returns the files."""
    generator = np.random.default_rng(0)
    directory.mkdir(parents=True, exist_ok=True)
    files = [str(directory / f"part-{number}.blocks") for number in range(num_files)]
    users, posts, tags = (declared().table_tags()[table] << ID_BITS for table in ("users", "posts", "tags"))
    of_files: list[list[bytes]] = [[] for _ in files]
    for number in range(num_examples):
        user, post = int(generator.integers(1, 60)), int(generator.integers(1000, 1080))
        age = float(generator.normal())
        logit = ((user * 7) % 13 - 6) / 3 + ((post * 5) % 11 - 5) / 3 + age
        ints = {
            "user": [users | user],
            "post": [posts | post],
            "history": (posts | generator.integers(1000, 1080, generator.integers(0, 6))).tolist(),
            "tags": (tags | generator.integers(5000, 5020, generator.integers(0, 4))).tolist(),
            EVENT_TIME: [FIRST_EVENT_S + 60 * minutes_apart * number],
        }
        floats = {"age": [age], "like": [float(generator.random() < 1 / (1 + np.exp(-logit)))], "watch": [logit]}
        feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=value)) for name, value in ints.items()}
        for name, value in floats.items():
            feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=value))
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        of_files[number % num_files].append(example.SerializeToString())
    for file, examples in zip(files, of_files, strict=True):
        write_blocks(file, examples, BLOCK_ROWS)
    return tuple(files)


def write_days(directory: Path, days: tuple[str, ...], files_a_day: int = 1) -> tuple[str, ...]:
    """Writes the same examples as logs by day, an equal share of them in each file; returns the files."""
    [whole] = write_examples(directory / "whole", num_files=1)
    records = first_examples([whole], NUM_EXAMPLES)
    names = [file_name(day, number, 0) for day in days for number in range(files_a_day)]
    for number, name in enumerate(names):
        of_file = records[number * len(records) // len(names) : (number + 1) * len(records) // len(names)]
        write_blocks(directory / name, of_file, BLOCK_ROWS)
    return tuple(str(directory / name) for name in names)


def job(directory: Path, ranker: RankerSpec, files: tuple[str, ...], *, base: Path | None = None) -> TrainJob:
    """Returns a job in its own folder; without Transform's graph it can be trained but not exported."""
    return TrainJob(
        ranker=ranker,
        spec_digest=digest(ranker),
        train_files=files,
        validation_files=files[:1],
        transform_graph="",
        model_dir=str(directory / "model"),
        output_dir=str(directory / "output"),
        final_checkpoint=str(directory / "final"),
        checkpoint_dir=str(directory / "checkpoints"),
        base_checkpoint=str(base or ""),
        log_dir=str(directory / "logs"),
    )


def write_job(
    directory: Path, ranker: RankerSpec, files: tuple[str, ...], *, base: Path | None = None, is_exported: bool = True
) -> Path:
    """Writes a job file and its folders; returns the file."""
    made = job(directory, ranker, files, base=base)
    if not is_exported:
        made = made.model_copy(update={"model_dir": ""})
    for folder in (made.log_dir, made.output_dir, made.checkpoint_dir):
        os.makedirs(folder, exist_ok=True)
    path = directory / "job.json"
    path.write_text(made.model_dump_json())
    return path


def run_ranks(directory: Path, ranker: RankerSpec, files: tuple[str, ...], *, base: Path | None = None) -> np.ndarray:
    """Runs the ranks of a job as processes, without a launcher; returns the losses: [steps, tasks]."""
    job_file = write_job(directory, ranker, files, base=base)
    clear_meeting(read_job(job_file))
    logs = [directory / f"rank-{rank}.log" for rank in range(ranker.cluster.ranks)]
    run_processes(["sangam.trainer_module", str(job_file), str(os.getpid()), "", "0"], len(logs), logs, 120)
    losses: np.ndarray = np.load(directory / "output" / "losses.npy")
    return losses


def report_of(made: TrainJob) -> dict[str, Any]:
    """Trains a job in this process to its end, and returns its report."""
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.training import train

    for folder in (made.log_dir, made.output_dir, made.checkpoint_dir):
        Path(folder).mkdir(parents=True, exist_ok=True)
    collectives.start()
    train(made, "", "0", rank=0, ranks=1)
    report: dict[str, Any] = json.loads(made.report_file.read_text())
    return report


def train_on(trainer: Any, batches: Any, progress: Any) -> Any:
    """Trains on an epoch's batches in this process; returns the epoch's report."""
    from sangam.trainer_module.loop.epoch import train_epoch
    from sangam.trainer_module.loop.history import EpochReport

    report = EpochReport()
    for _ in train_epoch(trainer, batches, progress, report):
        pass
    return report


def read_rows(checkpoint: Path, group: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns all ranks' keys and whole rows of a group of tables, sorted by key."""
    keys, rows = (
        np.concatenate([np.load(file) for file in sorted(checkpoint.glob(f"rank-*.{group}.{array}.npy"))])
        for array in ("keys", "rows")
    )
    order = np.argsort(keys)
    return keys[order], rows[order]


def read_dense(checkpoint: Path) -> dict[str, np.ndarray]:
    """Returns the flat vectors of the dense weights and their moments, by name."""
    return {file.name.split(".")[1]: np.load(file) for file in checkpoint.glob("dense.*.npy")}

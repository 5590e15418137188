"""What must balance at the end: what was produced, joined, trained on and served."""

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.server.client import connect
from sangam.pipelines.synthetic.world import TASKS
from sangam.schemas.contracts import segments
from sangam.schemas.contracts.export import RANK
from sangam.schemas.contracts.training_job import JOB_FILE, TrainJob, read_job, write_job
from sangam.trainer_module.checkpoint.folder import published
from tests.components.examples.sample_files import read_file
from tests.soak.online.feed import Truth
from tests.soak.online.world import COUNTED_DIM, ID, NAME, TIME, SoakWorld
from tests.trainer_module.sample_job import read_rows

_ROWS_A_REQUEST = 500
_TIMEOUT_S = 60
_FILL: dict[str, Any] = {"language": "unknown", "author_id": 0, "post_age_h": 0.0, "network_mbps": 0.0}
_FLOATS = ("duration_s", "post_age_h", "author_followers", "network_mbps")


def joined(world: SoakWorld) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """Returns how often each view is in the segments, and how often with each label."""
    folder = world.state / "examples"
    views: Counter[str] = Counter()
    labels: dict[str, Counter[str]] = {task: Counter() for task in TASKS}
    for number in segments.numbers(folder):
        for row in read_file(str(segments.examples_file(folder, number))):
            name = row[ID][0].decode()
            views[name] += 1
            for task in TASKS:
                labels[task][name] += int(row[task][0])
    return views, labels


def refuse_wrong_joins(world: SoakWorld, truth: Truth) -> None:
    """Compares the segments with what was produced: each view once, with the labels that followed it."""
    views, labels = joined(world)
    lost, twice = truth.views.keys() - views.keys(), [name for name, count in views.items() if count > 1]
    assert not lost, f"{len(lost)} views are in no segment, such as {sorted(lost)[:3]}"
    assert not twice, f"{len(twice)} views are there twice, such as {twice[:3]}"
    assert views.keys() == truth.views.keys()
    for task in TASKS:
        found = {name for name, count in labels[task].items() if count}
        missing, surplus = truth.labels[task] - found, found - truth.labels[task]
        assert not missing, (
            f"{task}: {len(missing)} of {len(truth.labels[task])} lack it, such as {sorted(missing)[:3]}; "
            f"the joiner counted {counts_of(world)}"
        )
        assert not surplus, f"{task}: {len(surplus)} should not have it, such as {sorted(surplus)[:3]}"


def refuse_uncounted(world: SoakWorld, truth: Truth, *, is_folder: bool) -> None:
    """Compares what was not joined with what the joiner has counted."""
    counts = counts_of(world) if is_folder else _status(world)["source"]["counts"]
    if is_folder:
        found, expected = counts.get("rows ahead of their arrival", 0), len(truth.left_out)
        for name in ("rows of files changed after reading", "rows dropped"):
            assert not counts.get(name), counts
    else:
        found = counts.get("dead letters", 0) + counts.get("messages of days that the base has learned from", 0)
        expected = len(truth.left_out) + truth.wrong_actions + truth.poison
    assert found == expected, (found, expected, counts)


def counts_of(world: SoakWorld) -> dict[str, int]:
    """Returns the joiner's counts."""
    counts: dict[str, int] = _status(world)["counts"]
    return counts


def _status(world: SoakWorld) -> dict[str, Any]:
    status: dict[str, Any] = json.loads((world.state / "joining" / "status.json").read_text())
    return status


def longest_gap_s(world: SoakWorld) -> float:
    """Returns the longest time between two segments with examples."""
    folder = world.state / "examples"
    made = [segments.read(folder, number) for number in segments.numbers(folder)]
    times = [segment.created.timestamp() for segment in made if segment.rows]
    return max((after - before for before, after in itertools.pairwise(times)), default=0.0)


def job_of(world: SoakWorld) -> TrainJob:
    """Returns the job of the online training."""
    [folder] = (world.state / "training").iterdir()
    return read_job(folder / "logs" / JOB_FILE)


def state_of(world: SoakWorld) -> dict[str, Any]:
    """Returns what the online training has said last; nothing before it has said anything."""
    files = list(world.state.glob("training/*/logs/online.json"))
    state: dict[str, Any] = json.loads(files[0].read_text()) if files else {}
    return state


def trained(world: SoakWorld) -> Counter[int]:
    """Returns how many views were trained on how often since the base, by the table's own books: {times: views}."""
    job = job_of(world)
    before, after = _counts(Path(job.base_checkpoint)), _counts(published(Path(job.checkpoint_dir))[-1])
    assert before.keys() <= after.keys()
    return Counter(count - before.get(key, 0) for key, count in after.items() if count != before.get(key, 0))


def _counts(checkpoint: Path) -> dict[int, int]:
    groups = {file.name.split(".")[1] for file in checkpoint.glob("rank-*.keys.npy")}
    [group] = [name for name in groups if name.startswith("adagrad_") and f"_{COUNTED_DIM}" in name]
    keys, rows = read_rows(checkpoint, group)
    return dict(zip(keys.tolist(), rows[:, -1].copy().view(np.int32).tolist(), strict=True))


def export_last(world: SoakWorld) -> Path:
    """Exports the last checkpoint, as a full version is; returns the model."""
    job, folder = job_of(world), world.directory / "trainers"
    folder.mkdir()
    exported = job.model_copy(
        update={
            "stream": None,
            "check_files": (),
            "model_dir": str(folder / "model"),
            "output_dir": str(folder),
            "final_checkpoint": str(published(Path(job.checkpoint_dir))[-1]),
            "log_dir": str(folder),
        }
    )
    write_job(folder / JOB_FILE, exported)
    code = (
        "import os, subprocess, sys; "
        "command = [sys.executable, '-m', 'sangam.trainer_module.export', sys.argv[1], str(os.getpid())]; "
        "sys.exit(subprocess.call(command))"
    )
    subprocess.run([sys.executable, "-c", code, str(folder / JOB_FILE)], check=True, timeout=300)
    return folder / "model"


def requests_of(rows: list[dict[str, Any]]) -> list[dict[str, NDArray[Any]]]:
    """Returns requests that look up every key of the rows."""
    made = []
    for start in range(0, len(rows), _ROWS_A_REQUEST):
        part = rows[start : start + _ROWS_A_REQUEST]
        arrays: dict[str, NDArray[Any]] = {}
        for name in part[0].keys() - {TIME}:
            values = [_FILL[name] if row[name] is None else row[name] for row in part]
            if isinstance(values[0], list):
                width = max(1, *map(len, values))
                empty = "" if name == "hashtags" else 0
                arrays[name] = np.array([[*each, *[empty] * (width - len(each))] for each in values])
                arrays[f"{name}_length"] = np.array([len(each) for each in values], np.int64)
            else:
                arrays[name] = np.array(values, np.float32 if name in _FLOATS else None)
        made.append(arrays)
    return made


def served_differs(model: Path, address: str, rows: list[dict[str, Any]]) -> tuple[int, float]:
    """Asks the server and the model for the scores of all rows; returns their number and the largest difference."""
    import tensorflow as tf

    call = tf.saved_model.load(str(model)).signatures[RANK]
    most, number = 0.0, 0
    with connect(address, NAME) as client:
        for arrays in requests_of(rows):
            served = client.predict(RANK, arrays, _TIMEOUT_S)
            own = call(**{name: tf.constant(values) for name, values in arrays.items()})
            assert served.keys() == own.keys()
            for task, scores in own.items():
                number += scores.shape[0]
                most = max(most, float(np.abs(served[task] - scores.numpy()).max()))
    return number, most

"""A killed launcher is started again, and a rerun of an unfinished training finds its checkpoints."""

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sangam.components.steps.trainer.attempts import TrainingFailed, run_to_the_end
from sangam.components.steps.trainer.unfinished import begin, checkpoint_dir, forget
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.cluster import MAX_RETRIES
from tests.paths import SPECS

RANKER = load_spec(SPECS / "short_video.yaml").ranker()


def write_job(folder: Path, **settings: Any) -> None:
    written = {
        "log_dir": str(folder),
        "checkpoint_dir": str(folder / "working"),
        "final_checkpoint": str(folder / "final"),
        "model_dir": str(folder / "model"),
        "kills": 0,
        "signal": "SIGKILL",
        "gives_up": False,
    } | settings
    (folder / "working").mkdir(exist_ok=True)
    (folder / "job.json").write_text(json.dumps(written))


def run(folder: Path, **settings: Any) -> None:
    write_job(folder, **settings)
    run_to_the_end(
        folder / "job.json",
        folder,
        launcher="tests.components.steps.trainer.fake_launcher",
    )


def attempts(folder: Path) -> int:
    return int((folder / "working" / "attempts").read_text())


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGSEGV"])
def test_a_killed_launcher_is_started_again(tmp_path: Path, signal: str) -> None:
    run(tmp_path, kills=2, signal=signal)
    assert json.loads((tmp_path / "model" / "attempt.json").read_text()) == 2


def test_a_launcher_that_is_killed_once_too_often_fails_the_training(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match=r"training: .*SIGKILL\nAll logs: "):
        run(tmp_path, kills=99)
    assert attempts(tmp_path) == MAX_RETRIES + 1


def test_a_job_that_its_launcher_gave_up_is_not_tried_again(tmp_path: Path) -> None:
    (tmp_path / "failure.txt").write_text("of another training")
    with pytest.raises(TrainingFailed, match=r"training: rank-1 .*code 1\nAll logs: "):
        run(tmp_path, kills=1, gives_up=True)
    assert attempts(tmp_path) == 2


def identity(root: Path, **changes: Any) -> Path:
    (root / "examples").write_text("examples")
    given = {"ranker": RANKER, "code": "c", "train_files": [str(root / "examples")], "transform_graph": "", "base": ""}
    return checkpoint_dir(str(root), **given | changes)


def test_the_same_training_finds_its_checkpoints_again(tmp_path: Path) -> None:
    found = identity(tmp_path)
    assert found == identity(tmp_path)
    assert found.parent == tmp_path / "checkpoints" / "short_video"


def test_another_training_finds_others(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("examples")
    seeded = RANKER.training.model_copy(update={"seed": 7})
    others = [
        identity(tmp_path),
        identity(tmp_path, ranker=RANKER.model_copy(update={"training": seeded})),
        identity(tmp_path, code="d"),
        identity(tmp_path, train_files=[str(tmp_path / "other")]),
        identity(tmp_path, base="b"),
    ]
    (tmp_path / "other").write_text("longer examples")
    others.append(identity(tmp_path, train_files=[str(tmp_path / "other")]))
    assert len(set(others)) == len(others)


def test_what_has_ended_well_is_forgotten(tmp_path: Path) -> None:
    first, second = identity(tmp_path), identity(tmp_path, code="d")
    for directory in (first, second):
        begin(directory, longest_s=60)
        (directory / "step-000000000001").mkdir()
    forget(first, longest_s=60)
    assert [path.name for path in first.parent.iterdir()] == [second.name]
    forget(second, longest_s=60)
    assert not (tmp_path / "checkpoints").exists()


def given_up(tmp_path: Path, number: int, *, hours_ago: float) -> Path:
    directory = identity(tmp_path, code=f"given up {number}")
    begin(directory, longest_s=math.inf)
    (directory / "damaged-step-000000000001").mkdir()
    (directory / ".step-000000000002.tmp").mkdir()
    then = time.time() - 3600 * hours_ago
    os.utime(directory / "begun", (then, then))
    return directory


def test_what_was_given_up_stays_for_a_rerun_until_another_training_has_ended_well(tmp_path: Path) -> None:
    dead, may_be_alive = given_up(tmp_path, 1, hours_ago=7), given_up(tmp_path, 2, hours_ago=5)
    (dead.parent / "notes").mkdir()
    own = identity(tmp_path)
    begin(own, longest_s=6 * 3600)
    assert dead.exists()
    forget(own, longest_s=6 * 3600)
    assert sorted(dead.parent.iterdir()) == sorted([may_be_alive, dead.parent / "notes"])


def test_a_rerun_of_what_was_given_up_is_not_dead(tmp_path: Path) -> None:
    again = given_up(tmp_path, 1, hours_ago=7)
    begin(again, longest_s=6 * 3600)
    own = identity(tmp_path)
    begin(own, longest_s=6 * 3600)
    forget(own, longest_s=6 * 3600)
    assert again.exists()


def test_while_every_training_is_given_up_the_last_three_stay(tmp_path: Path) -> None:
    found = [given_up(tmp_path, number, hours_ago=100 - number) for number in range(5)]
    begin(identity(tmp_path), longest_s=6 * 3600)
    assert [directory.exists() for directory in found] == [False, False, True, True, True]

"""The lines of progress that a training writes."""

import json
from pathlib import Path

from sangam.trainer_module.progress import Progress
from tests.schemas.sample_jobs import sample_job


def test_a_line_has_the_losses_by_task_and_the_examples_expected_at_the_end(tmp_path: Path) -> None:
    job = sample_job(tmp_path, num_train_examples=1000)
    Path(job.log_dir).mkdir()
    now = iter([0.0, 10.0, 10.0, 12.0, 12.0])
    progress = Progress(job, 0, clock=lambda: next(now))
    tasks = list(job.ranker.tasks)
    progress.stepped(500, [0.5] * len(tasks))
    [line] = job.progress_file.read_text().splitlines()
    assert json.loads(line) | {"at": ""} == {
        "at": "",
        "step": 1,
        "examples": 500,
        "expected": 1000 * job.ranker.training.epochs,
        "loss": 0.5 * len(tasks),
        "examples_per_s": 50.0,
        "losses": dict.fromkeys(tasks, 0.5),
    }


def test_the_last_step_has_a_line_however_soon_it_comes(tmp_path: Path) -> None:
    job = sample_job(tmp_path, num_train_examples=1000)
    Path(job.log_dir).mkdir()
    progress = Progress(job, 0, clock=lambda: 0.0)
    steps = 2 * job.ranker.training.epochs
    for _ in range(steps):
        progress.stepped(500, [0.5] * len(job.ranker.tasks))
    told = [json.loads(line)["step"] for line in job.progress_file.read_text().splitlines()]
    assert told == [1, steps]


def test_of_a_job_that_does_not_say_its_examples_the_end_is_not_known(tmp_path: Path) -> None:
    assert Progress(sample_job(tmp_path), 0).expected == 0

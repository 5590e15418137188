"""The lines of progress that a training writes."""

import json
from pathlib import Path

from tests.schemas.sample_jobs import sample_job
from trainer_module.progress import Progress


def test_a_line_has_the_losses_by_task_and_the_examples_expected_at_the_end(tmp_path: Path) -> None:
    job = sample_job(tmp_path, num_train_examples=1000)
    Path(job.log_dir).mkdir()
    now = iter([0.0, 10.0, 10.0, 12.0, 12.0])
    progress = Progress(job, 0, clock=lambda: next(now))
    tasks = list(job.ranker.tasks)
    progress.stepped(500, [0.5] * len(tasks))
    [line] = job.progress_file.read_text().splitlines()
    assert json.loads(line) == {
        "step": 1,
        "examples": 500,
        "expected": 1000 * job.ranker.training.epochs,
        "loss": 0.5 * len(tasks),
        "examples_per_s": 50.0,
        "losses": dict.fromkeys(tasks, 0.5),
    }


def test_of_a_job_that_does_not_say_its_examples_the_end_is_not_known(tmp_path: Path) -> None:
    assert Progress(sample_job(tmp_path), 0).expected == 0

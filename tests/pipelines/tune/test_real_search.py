"""A search with real trainings is killed in the middle, leaves no process, and goes on from where it was."""

import io
import json
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from sangam.pipelines.tune.records import trials_of
from sangam.pipelines.tune.request import STUDY_FILE
from sangam.pipelines.tune.run import run_tune
from sangam.schemas.loading import load_spec
from tests.errors import mentions
from tests.pipelines.tune.fake_training import study_of
from tests.pipelines.tune.sample_search import RATE, search_of, write_world
from tests.trainer_module.launch import warm
from tests.trainer_module.launch.launched_job import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]


def _processes_of(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in part for part in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_killed_search_goes_on_within_the_trial_that_it_was_at(tmp_path: Path) -> None:
    write_world(tmp_path)
    search = search_of(tmp_path, 2)
    folder = search.folder
    log = tmp_path / "search.log"
    first = warm.start(["tests.pipelines.tune.sample_search", str(tmp_path), "2"], log)
    second_trial = folder / "trials" / "0001"
    wait_until(
        lambda: list(second_trial.glob("checkpoints/step-*/manifest.json")), 120, "a checkpoint of the second trial"
    )
    first.kill()
    first.wait(10)
    assert log.read_text().count("trial 0   done") == 1
    wait_until(lambda: not _processes_of(tmp_path), 30, "no process of the search is left")
    shown = io.StringIO()
    with warm.forked_groups():
        assert run_tune(search, Console(file=shown, width=200)) == 0, shown.getvalue()
    assert mentions(shown.getvalue(), "interrupted ... trial 1")
    made = trials_of(study_of(search, folder / STUDY_FILE))
    assert [(trial.state, trial.starts, trial.epoch) for trial in made] == [("done", 1, 10), ("done", 2, 10)]
    reports = [json.loads((folder / "trials" / f"000{n}" / "output" / "training.json").read_text()) for n in (0, 1)]
    assert [bool(report["resumed_from_step"]) for report in reports] == [False, True]
    assert [report["epochs"][-1]["validation"]["like"]["auc"] for report in reports] == [t.objective for t in made]
    assert not [*(folder / "trials").glob("*/checkpoints"), *(folder / "trials").glob("**/saved_model.pb")]
    best = max(made, key=lambda trial: trial.objective or 0.0)
    assert load_spec(folder / "best.yaml").training.dense_optimizer.learning_rate == best.values[RATE]

"""A short soak, of every run of the tests: what `make soak` does in every mode for long.

With staleness 0 two trainings left alone are equal, so a difference is of the kills. From 1 on, trainings as short as
this one differ by 0.01 by themselves.
"""

from pathlib import Path

import pytest

from tests.soak.__main__ import MOST_DIFFERENCE
from tests.soak.kills import auc_of, soak
from tests.trainer_module.parameter_server.sample_servers import made_job, train_served
from tests.trainer_module.sample_job import write_examples, write_job
from tests.trainer_module.trained_examples import assert_trained_on_each_example_once_an_epoch, counting

pytestmark = pytest.mark.slow

_EPOCHS = 6
_SEED = 14
_KILLS = ("rank", "parameter server")


def test_a_stale_job_of_which_a_rank_and_a_server_are_killed_learns_as_well_as_one_left_alone(tmp_path: Path) -> None:
    files = write_examples(tmp_path / "data")
    spec = counting(
        epochs=_EPOCHS,
        sync={"kind": "stale", "staleness": 0},
        parameter_servers=1,
        checkpoint={"every_steps": 20, "keep": 2},
    )
    train_served(made_job(tmp_path / "alone", spec, files))
    # Asserts that every attempt goes on, and that no process is left.
    killed = write_job(tmp_path / "killed", spec, files, is_exported=False)
    told = soak(killed, seed=_SEED, kills=_KILLS, mean_pause_s=0.2)
    assert told.kills == dict.fromkeys(_KILLS, 1)
    assert told.launches == 1
    assert abs(auc_of(tmp_path / "alone") - auc_of(tmp_path / "killed")) <= MOST_DIFFERENCE
    assert_trained_on_each_example_once_an_epoch(tmp_path / "killed", files, _EPOCHS)

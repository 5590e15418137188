"""The ranks of one machine: one that leaves early is named, though the others seem to make progress."""

import os
import time
from pathlib import Path

import pytest

from sangam.schemas.contracts.training_job import read_job
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.launch.rank_group import RankGroup
from tests.errors import tells
from tests.trainer_module.launch import fake_leaver
from tests.trainer_module.sample_job import declared, write_job

pytestmark = pytest.mark.processes

_LIMIT_S = 8
"""Longer than Python takes to start on two cores that many want."""


def _wait_for(group: RankGroup) -> None:
    given_up = time.monotonic() + 30
    while not group.are_done():
        assert time.monotonic() < given_up
        time.sleep(0.05)


def test_a_rank_that_leaves_early_ends_the_attempt_by_its_name(tmp_path: Path) -> None:
    job_file = write_job(tmp_path, declared(ranks=2, heartbeat_timeout_s=_LIMIT_S), ())
    job = read_job(job_file)
    Path(job.log_dir).mkdir(exist_ok=True)
    group = RankGroup(
        job_file,
        job,
        range(2),
        lambda rank: {"HOROVOD_RANK": str(rank)},
        parent_pid=os.getpid(),
        service="",
        attempt="0",
        module=fake_leaver.__name__,
    )
    try:
        with pytest.raises(JobFailedError) as failed:
            _wait_for(group)
    finally:
        group.end()
    assert failed.value.may_retry
    assert tells(
        str(failed.value), "training", f"rank-1 ended {_LIMIT_S} s before the others ... cluster.heartbeat_timeout_s"
    )
    assert all(child.exit_code() is not None for child in group.children)

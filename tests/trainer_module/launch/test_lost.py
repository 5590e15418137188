"""Lost processes: what is told of them, and when a job gives up."""

import json
from pathlib import Path

import pytest

from sangam.schemas.contracts.training_job import Stream, TrainJob
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.online import Online
from sangam.trainer_module.checkpoint.manifest import MANIFEST
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.launch.lost import Losses
from tests.errors import mentions, place_and_value, tells
from tests.paths import SPECS

RANKER = SPECS / "short_video.yaml"


@pytest.fixture
def job(tmp_path: Path) -> TrainJob:
    from sangam.schemas.loading import load_spec

    paths = dict.fromkeys(("transform_graph", "model_dir", "output_dir", "final_checkpoint"), "")
    ranker: RankerSpec = load_spec(RANKER).ranker()
    ranker = ranker.model_copy(update={"cluster": ranker.cluster.model_copy(update={"retries": 2})})
    made = TrainJob(
        ranker=ranker,
        spec_digest="",
        train_files=(),
        checkpoint_dir=str(tmp_path / "checkpoints"),
        log_dir=str(tmp_path),
        **paths,
    )
    made.progress_file.write_text('{"step": 2763, "loss": 0.1}\n{"epoch": 0, "validation": {}}\n')
    for step, files in (("step-000000002600.best", [MANIFEST]), ("step-000000002700", ["half written"])):
        (tmp_path / "checkpoints" / step).mkdir(parents=True)
        for name in files:
            (tmp_path / "checkpoints" / step / name).touch()
    return made


def _lost(what: str = "rank 1 lost (signal 9)", cause: str = "killed") -> JobFailedError:
    return JobFailedError(cause, "training: rank-1 was ended by SIGKILL; the end of LOG:\nbye", what)  # type: ignore[arg-type]


def _said(job: TrainJob) -> list[str]:
    lines = map(json.loads, job.progress_file.read_text().splitlines())
    return [line["says"] for line in lines if "says" in line]


def test_each_loss_is_told_with_its_step_the_step_to_go_on_from_and_the_attempt(job: TrainJob) -> None:
    losses = Losses(job)
    losses.restart(_lost())
    losses.replace(_lost("data worker 0 lost (signal 9)"))
    rank, worker = _said(job)
    assert mentions(rank, "rank 1 lost (signal 9) ... step 2,763 ... step 2,600 ... 2 of 3")
    assert mentions(worker, "data worker 0 lost (signal 9) ... step 2,763 ... 3 of 3")


def test_a_job_that_is_begun_again_says_from_where_it_goes_on(job: TrainJob) -> None:
    Losses(job).begin("launcher")
    [said] = _said(job)
    assert mentions(said, "launcher ... step 2,763 ... step 2,600")


def test_a_job_that_begins_says_nothing(job: TrainJob) -> None:
    job.progress_file.unlink()
    Losses(job).begin("launcher")
    assert not job.progress_file.exists()


def test_a_lost_leader_counts_as_one_more_loss(job: TrainJob) -> None:
    job.progress_file.unlink()
    first = Losses(job)
    first.begin("coordinator")
    first.restart(_lost())
    Losses(job).begin("coordinator")
    assert mentions(_said(job)[-1], "coordinator ... step 2,600 ... 3 of 3")
    with pytest.raises(JobFailedError, match=r"coordinator .* 2 .*cluster.retries"):
        Losses(job).begin("coordinator")


def test_a_lost_leader_of_an_online_training_does_not_keep_the_next_one_from_beginning(job: TrainJob) -> None:
    stream = Stream(segments="segments", first=1, versions="versions", lineage="1", settings=Online())
    cluster = job.ranker.cluster.model_copy(update={"retries": 0})
    online = job.model_copy(update={"stream": stream, "ranker": job.ranker.model_copy(update={"cluster": cluster})})
    Losses(online).begin("launcher")
    Losses(online).begin("launcher")
    assert mentions(_said(job)[-1], "launcher ... step 2,763 ... step 2,600")


def test_a_job_that_has_ended_by_itself_begins_with_a_new_count(job: TrainJob) -> None:
    for _ in range(5):
        losses = Losses(job)
        losses.begin("launcher")
        losses.restart(_lost())
        losses.restart(_lost())
        losses.end()


def test_one_loss_too_many_is_one_clear_error_that_says_how_to_go_on(job: TrainJob) -> None:
    losses = Losses(job)
    losses.restart(_lost())
    losses.restart(_lost())
    with pytest.raises(JobFailedError) as given_up:
        losses.replace(_lost("data worker 0 lost (signal 9)"))
    first, *rest = str(given_up.value).splitlines()
    assert tells(first, "training", "data worker 0 lost (signal 9) ... 2,763 ... 2 ... cluster.retries ... 2,600")
    assert tells(rest[0], "training", "rank-1 ... SIGKILL ... LOG")
    assert rest[1:] == ["bye"]
    # Whoever has started the attempt must not take it for one more loss.
    with pytest.raises(JobFailedError, match=place_and_value("training", "2 ... cluster.retries")):
        losses.restart(given_up.value)


def test_what_trying_again_cannot_help_is_not_counted(job: TrainJob) -> None:
    losses = Losses(job)
    with pytest.raises(JobFailedError, match="SIGKILL"):
        losses.restart(_lost(cause="mistake"))
    assert _said(job) == []

"""A training job's way from its creation to its removal, on a server that speaks the Kubernetes API."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sangam.components.steps.trainer.attempts import TrainingFailed
from sangam.schemas.contracts.training_job import LOSSES_FILE
from tests.components.steps.trainer.kubernetes.sample_run import (
    DONE,
    NAME,
    World,
    limit_restarts,
    training_run,
    wait_until,
    world,
)
from tests.errors import place_and_value, tells
from tests.fakes.kubernetes_controllers import Life, finish, set_condition
from tests.paths import REPOSITORY

pytestmark = pytest.mark.slow

KINDS = pytest.mark.parametrize("kind", ["jobset", "mpijob"])
PREEMPTED = Life(says=("begins",), code=143, condition="DisruptionTarget")


@KINDS
def test_a_job_is_created_watched_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level("INFO")
    with world(tmp_path, monkeypatch, coordinator=[DONE]) as cluster:
        cluster.launch(training_run(kind))
        assert cluster.left() == []
        assert len(cluster.created("pods")) == 1 + 2 + 1 + 2
        assert cluster.created("services") == [f"{NAME}-{end}" for end in ("coordinator", "dispatcher", "data-worker")]
        assert cluster.created("networkpolicies") == [NAME]
    assert "coordinator: begins" in caplog.text
    assert "coordinator: exports" in caplog.text


@KINDS
def test_no_pod_is_there_before_the_policy_and_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with world(tmp_path, monkeypatch, coordinator=[DONE]) as cluster:
        cluster.launch(training_run(kind))
        added = [plural for _, plural, event, _ in cluster.store.history if event == "ADDED"]
        first_pod = added.index("pods")
        assert {"networkpolicies", "services"} <= set(added[:first_pod])
        assert added[:first_pod].count("services") == 3


@KINDS
def test_a_job_in_a_queue_is_started_by_kueue_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    run, plural = training_run(kind, queue="team"), f"{kind}s"
    resumed = {"spec": {"suspend": False} if kind == "jobset" else {"runPolicy": {"suspend": False}}}
    with world(tmp_path, monkeypatch, coordinator=[DONE]) as cluster:

        def admits() -> None:
            queued = {"kueue.x-k8s.io/queue-name": "team"}
            wait_until(lambda: queued.items() <= _labels(cluster, plural, run.name).items(), "the job is queued")
            created.extend(plural for _, plural, event, _ in cluster.store.history if event == "ADDED")
            cluster.store.merge(plural, run.name, resumed)

        created: list[str] = []
        kueue = threading.Thread(target=admits)
        kueue.start()
        cluster.launch(run)
        kueue.join()
        assert cluster.left() == []
        assert cluster.created("statefulsets") != []
    # What pods need is there, and nothing that takes room.
    assert {"networkpolicies", "services"} <= set(created)
    assert not {"pods", "statefulsets"} & set(created)


def _labels(cluster: World, plural: str, name: str) -> dict[str, str]:
    return dict(cluster.store.objects.get((plural, name), {}).get("metadata", {}).get("labels", {}))


@KINDS
def test_a_mistake_fails_at_once_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def writes_why(_: str) -> None:
        (tmp_path / "failure.txt").write_text("training: features.age: has no values\n")

    mistake = Life(says=("reads the job", "features.age has no values"), code=2, does=writes_why)
    with world(tmp_path, monkeypatch, coordinator=[mistake]) as cluster:
        with pytest.raises(TrainingFailed) as failed:
            cluster.launch(training_run(kind))
        assert cluster.left() == []
        pods = [name for name in cluster.created("pods") if "coordinator" in name or "launcher" in name]
    text = str(failed.value)
    assert text.startswith("training: features.age: has no values\n")
    assert tells(text, f"pod {pods[0]} (coordinator)", "code 2")
    assert "\nreads the job\n" in text
    assert text.endswith(f"All logs: {tmp_path}")
    # The MPI operator may have been faster with another pod than the step with its verdict.
    assert len(pods) <= (1 if kind == "jobset" else 2)


@KINDS
def test_a_preempted_coordinator_is_replaced_within_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with world(tmp_path, monkeypatch, coordinator=[PREEMPTED, DONE]) as cluster:
        cluster.launch(training_run(kind))
        assert len(cluster.created(f"{kind}s")) == 1
        assert cluster.left() == []


def test_a_job_that_was_preempted_to_its_end_is_made_anew_and_knows_its_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_restarts(monkeypatch, 1)
    (tmp_path / LOSSES_FILE).write_text("of an earlier run")
    known: list[bool] = []

    def counts(_: str) -> None:
        known.append((tmp_path / LOSSES_FILE).exists())
        (tmp_path / LOSSES_FILE).write_text("1")

    first, second = (replace(PREEMPTED, does=counts) for _ in range(2))
    with world(tmp_path, monkeypatch, coordinator=[first, second, replace(DONE, does=counts)]) as cluster:
        cluster.launch(training_run("mpijob"))
        assert len(cluster.created("mpijobs")) == 2
        assert cluster.left() == []
    assert known == [False, True, True]


def test_a_job_that_is_preempted_once_too_often_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_restarts(monkeypatch, 1)
    with world(tmp_path, monkeypatch, coordinator=[PREEMPTED] * 9) as cluster:
        with pytest.raises(TrainingFailed, match=r"BackoffLimitExceeded: .*\npod .* code 143"):
            cluster.launch(training_run("mpijob"))
        assert len(cluster.created("mpijobs")) == 2
        assert cluster.left() == []


@KINDS
@pytest.mark.parametrize("component", ["coordinator", "host", "data_worker"])
def test_a_limit_of_memory_that_is_met_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, component: str
) -> None:
    killed = Life(says=("exports",), code=137, reason="OOMKilled")
    with world(tmp_path, monkeypatch, **{component: [killed] * 9}) as cluster:
        with pytest.raises(TrainingFailed) as failed:
            cluster.launch(training_run(kind, launcher={component: {"memory": "300MiB"}}))
        assert cluster.left() == []
        assert len(cluster.created(f"{kind}s")) == 1
    assert f"code 137 (OOMKilled): raise cluster.launcher.{component}.memory" in str(failed.value)


def test_memory_that_runs_out_without_a_limit_is_no_preemption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_restarts(monkeypatch, 1)
    killed = Life(says=("exports",), code=137, reason="OOMKilled")
    with world(tmp_path, monkeypatch, coordinator=[killed] * 9) as cluster:
        with pytest.raises(TrainingFailed, match=r"BackoffLimitExceeded: .*\npod .* 137 \(OOMKilled\)"):
            cluster.launch(training_run("mpijob"))
        assert len(cluster.created("mpijobs")) == 1


def test_an_evicted_host_makes_room_for_its_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch, host=[Life(is_evicted=True)]) as cluster:
        replaced = cluster.ends_when(lambda: cluster.created("pods").count(f"{NAME}-worker-0") == 2, "a replacement")
        cluster.kubelet.lives["coordinator"] = [replaced]
        cluster.launch(training_run("mpijob"))
        assert cluster.left() == []
        conditions = [each for _, plural, _, each in cluster.store.history if plural == "mpijobs"][-1]["status"]
        assert conditions["conditions"][0]["reason"] == "MPIJobEvicted"


def test_the_deadline_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as cluster:

        def too_late(_: str) -> None:

            job = cluster.store.get("jobs", f"{NAME}-coordinator-0")
            assert job is not None
            set_condition(cluster.store, "jobs", job, "Failed", reason="DeadlineExceeded", message="too long")

        cluster.kubelet.lives["coordinator"] = [Life(does=too_late)]
        with pytest.raises(TrainingFailed, match=place_and_value("training", "21600 ... cluster.deadline_s")):
            cluster.launch(training_run("jobset"))
        assert cluster.left() == []


@pytest.mark.parametrize(
    ("life", "told"),
    [
        (
            Life(waits=("Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")),
            "Unschedulable: 0/3 nodes are available",
        ),
        (
            Life(waits=("ErrImagePull", "not found")),
            "waits: ErrImagePull: not found (FailedMount: no such claim)",
        ),
    ],
)
def test_a_pod_that_waits_is_told_while_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, life: Life, told: str
) -> None:
    with world(tmp_path, monkeypatch, host=[life]) as cluster:
        told_of = cluster.ends_when(lambda: "(host) waits" in caplog.text, "a word of it")
        cluster.kubelet.lives["coordinator"] = [told_of]
        event = {"type": "Warning", "reason": "FailedMount", "message": "no such claim"}
        for index in (0, 1):
            involved = {"name": f"{NAME}-worker-{index}"}
            meta = {"name": f"event-{index}"}
            cluster.store.create("events", {"kind": "Event", "metadata": meta, "involvedObject": involved, **event})
        cluster.launch(training_run("mpijob"))
    assert told in caplog.text


@pytest.mark.processes
def test_a_retried_step_adopts_what_is_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with world(tmp_path, monkeypatch) as cluster:
        killed = _step(cluster, "mpijob")
        wait_until(lambda: len(cluster.created("pods")) == 6, "all pods")
        killed.kill()
        killed.wait()
        [coordinator] = [name for name in cluster.created("pods") if "launcher" in name]

        finish(cluster.store, coordinator, 0)
        cluster.launch(training_run("mpijob"))
        assert cluster.left() == []
        assert len(cluster.created("mpijobs")) == 1
        assert len(cluster.created("pods")) == 6
    assert "event=adopted kind=MPIJob" in caplog.text


@pytest.mark.processes
def test_what_was_started_otherwise_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        killed = _step(cluster, "mpijob")
        wait_until(lambda: len(cluster.created("pods")) == 6, "all pods")
        killed.kill()
        killed.wait()
        cluster.kubelet.lives["coordinator"] = [DONE]
        cluster.launch(training_run("mpijob", launcher={"coordinator": {"memory": "8GiB"}}))
        assert cluster.left() == []
        assert len(cluster.created("mpijobs")) == 2
    assert "event=replaced kind=MPIJob" in caplog.text


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_step_that_is_stopped_removes_everything_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        step = _step(cluster, "jobset")
        wait_until(lambda: len(cluster.created("pods")) == 6, "all pods")
        os.kill(step.pid, number)
        code = step.wait(60)
        assert code in (-number, 1), step.stderr.read() if step.stderr else ""
        assert cluster.left() == []


def test_a_job_that_somebody_deletes_fails_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delete: Callable[[str], None] = lambda _: cluster.store.delete("jobsets", NAME)  # noqa: E731
    with world(tmp_path, monkeypatch, coordinator=[Life(does=delete)]) as cluster:
        with pytest.raises(TrainingFailed, match=place_and_value("training", "deleted")):
            cluster.launch(training_run("jobset"))
        assert cluster.left() == []


def _step(cluster: World, kind: str) -> "subprocess.Popen[bytes]":
    """Starts the step in a process of its own."""
    command = [sys.executable, "-m", "tests.components.steps.trainer.kubernetes.sample_run", kind, str(cluster.log_dir)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, cwd=REPOSITORY)

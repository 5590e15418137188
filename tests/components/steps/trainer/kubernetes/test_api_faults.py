"""What goes wrong between the step and the API server, and what the step makes of it."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from sangam.components.steps.trainer.kubernetes.api import Api
from sangam.components.steps.trainer.kubernetes.connection import connect
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from tests.components.steps.trainer.kubernetes.sample_run import (
    DONE,
    NAME,
    QUICK,
    ROLE,
    World,
    training_run,
    wait_until,
    world,
)
from tests.errors import place_and_value
from tests.fakes.kubernetes_api import Fault, granted
from tests.fakes.kubernetes_controllers import Life, finish

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("verb", "resource", "code"),
    [
        ("create", "jobsets", 500),
        ("create", "statefulsets", 429),
        ("get", "jobsets", 503),
        ("patch", "jobsets", 504),
        ("list", "pods", 429),
        ("watch", "pods", 500),
        ("watch", "jobsets", 429),
    ],
)
def test_what_passes_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, resource: str, code: int
) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        fault = Fault(verb, resource, code, times=2)
        cluster.api.faults = [fault]
        cluster.kubelet.lives["coordinator"] = [cluster.ends_when(lambda: fault.times == 0, "two faults")]
        cluster.launch(training_run())
        assert cluster.left() == []


def test_a_server_that_starts_again_may_forbid_everything_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        away, starting = Fault("watch", "jobsets", 503, times=1), Fault("watch", "jobsets", 403, times=2)
        cluster.api.faults = [away, starting]
        cluster.kubelet.lives["coordinator"] = [cluster.ends_when(lambda: starting.times == 0, "three faults")]
        cluster.launch(training_run())
        assert cluster.left() == []


@pytest.mark.parametrize("resource", ["jobsets", "networkpolicies", "services", "statefulsets"])
def test_a_request_whose_answer_was_lost_is_not_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resource: str
) -> None:
    with world(tmp_path, monkeypatch, coordinator=[DONE]) as cluster:
        cluster.api.faults = [Fault("create", resource, is_done=True)]
        cluster.launch(training_run())
        names = cluster.created(resource)
        assert len(names) == len(set(names))
        assert cluster.left() == []


def test_a_server_that_asks_for_time_is_given_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch, coordinator=[DONE]) as cluster:
        cluster.api.faults = [Fault("get", "jobsets", 429, headers={"Retry-After": "1"})]
        waits = []
        sleep = asyncio.sleep

        async def noted(seconds: float) -> None:
            waits.append(seconds)
            await sleep(0)

        monkeypatch.setattr("sangam.components.steps.trainer.kubernetes.api.asyncio.sleep", noted)

        async def main() -> None:
            async with connect(replace(QUICK, max_backoff_s=15)) as api:
                from sangam.components.steps.trainer.kubernetes.jobset import JobSet

                assert await api.get(JobSet, NAME) is None

        asyncio.run(main())
    assert waits[0] == 1.0


def test_a_server_that_does_not_recover_ends_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        cluster.timing = replace(QUICK, backoff_s=0.02, max_backoff_s=0.05, patience_s=0.3, removal_s=1.0)
        cluster.api.faults = [Fault("get", "jobsets", 503, times=10**6)]
        with pytest.raises(UserError, match=place_and_value("training", "get jobsets ... team-a ... 0 s (got 503")):
            cluster.launch(training_run())


def test_an_answer_that_never_comes_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sangam.components.steps.trainer.kubernetes.connection._TIMEOUT", httpx.Timeout(0.5))
    with world(tmp_path, monkeypatch, coordinator=[DONE]) as cluster:
        cluster.api.faults = [Fault("create", "jobsets", delay_s=1.5)]
        cluster.launch(training_run())
        assert cluster.left() == []


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["goes on", "lists anew"])
def test_a_watch_that_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_forgotten: bool
) -> None:
    """The job's end is only seen by a watch that goes on from where it was, or by a new list where that is too old."""
    caplog.set_level("INFO")
    with world(tmp_path, monkeypatch, coordinator=[Life(says=("one",))]) as cluster:

        def disturb() -> None:
            wait_until(lambda: "coordinator: one" in caplog.text, "a line of the log")
            [pod] = [name for name in cluster.created("pods") if "coordinator" in name]
            if is_forgotten:
                cluster.store.forget()

            def cut() -> bool:
                cluster.api.cut()
                return cluster.api.requests.count(("watch", "pods")) >= 2

            # Again and again: the first watch may open after a cut.
            wait_until(cut, "a second watch of the pods")
            cluster.store.log(pod, "two")
            wait_until(lambda: "coordinator: two" in caplog.text, "the next line")
            finish(cluster.store, pod, 0)

        thread = threading.Thread(target=disturb)
        thread.start()
        cluster.launch(training_run())
        thread.join()
        watches = cluster.api.requests.count(("watch", "pods"))
        lists = cluster.api.requests.count(("list", "pods"))
    assert caplog.text.count("coordinator: one") == 1, "a line that has been shown is not shown again"
    assert watches >= 2
    assert lists >= (2 if is_forgotten else 1)


def test_a_job_in_which_nothing_changes_for_long_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        cluster.timing = replace(QUICK, watch_s=1, silence_s=0.2, patience_s=0.5)
        quiet = cluster.ends_when(lambda: cluster.api.requests.count(("watch", "pods")) > 6, "seven silent watches")
        cluster.kubelet.lives["coordinator"] = [quiet]
        cluster.launch(training_run())
        assert cluster.api.requests.count(("list", "pods")) <= 4


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_step_learns_who_can_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        if code == 401:
            cluster.api.write_kubeconfig(tmp_path / "kubeconfig", token="of somebody else")
        else:
            cluster.api.rules.discard(("jobset.x-k8s.io", "jobsets", "create"))
        verb, remedy = ("get", "token ... expired") if code == 401 else ("create", "launcher-role.yaml")
        told = place_and_value("training", f"{verb} jobsets ... team-a (got {code}: ... {remedy}")
        with pytest.raises(UserError, match=told):
            cluster.launch(training_run())


def test_a_cluster_without_the_operator_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        cluster.api.faults = [Fault("create", "mpijobs", 404)]
        with pytest.raises(UserError, match=r"MPIJob \(kubeflow\.org/v2beta1\)"):
            cluster.launch(training_run("mpijob"))


def test_an_operator_that_does_nothing_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as cluster:
        cluster.timing = replace(QUICK, backoff_s=0.05, operator_s=0.3)
        cluster.controllers.__exit__()
        with pytest.raises(
            UserError, match=place_and_value("training", "operator of MPIJobs ... short-video-0123456789 ... 0 s")
        ):
            cluster.launch(training_run("mpijob"))
        assert cluster.left() == []


def test_without_a_cluster_there_is_a_word_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(UserError, match=place_and_value("training", "Kubernetes cluster ... none not found")):
        connect(QUICK)


def test_the_role_allows_what_is_used_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request of every other test goes through the Role as well; these use all of it."""
    used: set[tuple[str, str, str]] = set()
    for kind in ("mpijob", "jobset"):
        lives = {"host": [Life(is_evicted=True), Life(waits=("ContainerCreating", "")), Life()]}
        with world(tmp_path, monkeypatch, **lives) as cluster:
            cluster.start(training_run(kind))  # and is killed
            threading.Thread(target=_end, args=(cluster,), daemon=True).start()
            with pytest.raises(UserError, match="code 1"):
                cluster.launch(training_run(kind))
            used |= cluster.api.used
    assert used == granted(ROLE)


def _end(cluster: World) -> None:
    wait_until(lambda: ("", "events", "list") in cluster.api.used, "a look at the events")
    [pod] = [name for name in cluster.created("pods") if "launcher" in name or "coordinator" in name]
    finish(cluster.store, pod, ExitCode.FAILED)


def test_an_event_that_cannot_be_read_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch, host=[Life(waits=("ErrImagePull", ""))]) as cluster:
        cluster.api.rules.discard(("", "events", "list"))
        asked = cluster.ends_when(lambda: ("list", "events") in cluster.api.requests, "a look at the events")
        cluster.kubelet.lives["coordinator"] = [asked]
        cluster.launch(training_run())
        assert ("list", "events") in cluster.api.requests


def test_requests_are_made_in_the_namespace_that_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def namespaces() -> list[str]:
        found = []
        for given in ("", "team-b"):
            monkeypatch.setenv("SANGAM_NAMESPACE", given)
            api: Api
            async with connect(QUICK) as api:
                found.append(api.namespace)
        return found

    with world(tmp_path, monkeypatch):
        assert asyncio.run(namespaces()) == ["team-a", "team-b"]

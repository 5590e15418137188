"""The compiled pipeline, every step a pod, in a namespace that enforces PodSecurity `restricted`."""

import json

import pytest

from tests.cluster.dag import RUN_LABEL
from tests.cluster.demo import Demo
from tests.cluster.team import ACCOUNT, NAMESPACE

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


def test_every_step_ran_once_in_a_pod_of_the_shipped_account(demo: Demo) -> None:
    assert set(demo.backend.tries.values()) == {1}
    pods = demo.team.pods(f"{RUN_LABEL}=demo")
    assert len(pods) == len(demo.backend.tries) == 10
    assert {pod["spec"]["serviceAccountName"] for pod in pods} == {ACCOUNT}
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    labels = demo.team.plane.get("namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_run_ends_with_a_pushed_model_and_the_metrics_of_a_run_on_this_machine(demo: Demo) -> None:
    assert demo.produced["pusher"]["pushed_model"]["metadata"]["pushed"] == 1
    print({name: round(seconds, 1) for name, seconds in demo.backend.seconds.items()})
    print(f"node {demo.node_s:.1f} s, this machine {demo.local_s:.1f} s")
    found, expected = demo.verdict(), demo.local_verdict()
    assert found.blessed
    aucs, local = ({task: judged.metrics["auc"] for task, judged in each.tasks.items()} for each in (found, expected))
    # Beam's batches follow the clock, so that the means of Transform differ in the seventh digit between any two runs.
    assert aucs == pytest.approx(local, abs=0.001)
    [version] = [path for path in demo.serving.iterdir() if path.name.isdigit()]
    manifest = json.loads((version / "manifest.json").read_text())
    assert manifest["days"]["eval"] == [demo.local["date"]]


def test_the_page_of_the_run_lies_in_its_folder(demo: Demo) -> None:
    page = (demo.team.root / "runs" / "demo" / "report.html").read_text()
    assert "Pushed" in page
    assert demo.produced["pusher"]["pushed_model"]["metadata"]["version"] in page


def test_the_trainer_leaves_nothing_but_its_own_pod(demo: Demo) -> None:
    kinds = "mpijobs,jobsets,jobs,services,statefulsets"
    assert demo.team.plane.get(kinds, "--namespace", NAMESPACE)["items"] == []

"""The compiled pipeline, every task a pod, in a namespace that enforces PodSecurity `restricted`."""

import json
from pathlib import Path

import pytest

from tests.cluster.dag import RUN_LABEL
from tests.cluster.demo import Demo, metrics_here
from tests.cluster.team import ACCOUNT, NAMESPACE
from tests.e2e.user_run import DATE

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


def test_every_task_ran_once_in_a_pod_of_the_shipped_account(demo: Demo) -> None:
    assert set(demo.backend.tries.values()) == {1}
    pods = demo.team.pods(f"{RUN_LABEL}=demo")
    assert len(pods) == len(demo.backend.tries) == 4
    assert {pod["spec"]["serviceAccountName"] for pod in pods} == {ACCOUNT}
    # The phase follows the end of the container, sometimes later than this.
    ends = [pod["status"]["containerStatuses"][0]["state"]["terminated"] for pod in pods]
    assert {end["exitCode"] for end in ends} == {0}
    labels = demo.team.plane.get("namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_run_ends_with_a_pushed_model_and_its_page(demo: Demo) -> None:
    print({name: round(seconds, 1) for name, seconds in demo.backend.seconds.items()})
    assert demo.pushed["pushed"] == 1
    assert demo.verdict().blessed
    [version] = [path for path in demo.serving.iterdir() if path.name.isdigit()]
    assert version.name == demo.pushed["version"]
    assert json.loads((version / "manifest.json").read_text())["days"]["eval"] == [DATE]
    page = (demo.team.root / "runs" / "demo" / "report.html").read_text()
    assert "Pushed" in page
    assert version.name in page


def test_the_metrics_are_those_of_a_run_on_this_machine(demo: Demo, tmp_path: Path) -> None:
    found = {task: judged.metrics["auc"] for task, judged in demo.verdict().tasks.items()}
    assert found == pytest.approx(metrics_here(demo, tmp_path), abs=0.001)


def test_the_trainer_leaves_nothing_but_its_own_pod(demo: Demo) -> None:
    kinds = "mpijobs,jobsets,jobs,services,statefulsets"
    assert demo.team.plane.get(kinds, "--namespace", NAMESPACE)["items"] == []

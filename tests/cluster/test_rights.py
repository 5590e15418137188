"""What the shipped account may and may not do, asked of the real authorizer."""

import pytest

from tests.cluster.control_plane import Manifest
from tests.cluster.team import ACCOUNT, NAMESPACE, Team

OTHERS = "default"
POD: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "mine", "namespace": NAMESPACE},
    "spec": {"containers": [{"name": "c", "image": "registry.example/c"}]},
}
JOB: Manifest = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "mine", "namespace": NAMESPACE},
    "spec": {"template": {"spec": POD["spec"] | {"restartPolicy": "Never"}}},
}


def refused(team: Team, *arguments: str, given: Manifest | None = None) -> bool:
    """Returns whether the authorizer refuses the account's request."""
    done = team.plane.try_kubectl(*arguments, given=given, user=team.account)
    assert done.returncode == 0 or "(Forbidden)" in done.stderr or "forbidden" in done.stderr, done.stderr
    return done.returncode != 0


@pytest.fixture(scope="module")
def secrets(team: Team) -> None:
    for name, namespace in (("mlpipeline-minio-artifact", NAMESPACE), ("another", NAMESPACE), ("another", OTHERS)):
        team.plane.kubectl("create", "secret", "generic", name, "--from-literal=k=v", "--namespace", namespace)


def test_the_account_reads_the_one_secret_of_the_artifact_store(team: Team, secrets: None) -> None:
    assert not refused(team, "get", "secret", "mlpipeline-minio-artifact")
    assert refused(team, "get", "secret", "another")
    assert refused(team, "get", "secret", "another", "--namespace", OTHERS)
    assert refused(team, "get", "secrets")


def test_the_account_starts_no_pods_but_those_of_training_jobs(team: Team) -> None:
    for given in (POD, JOB):
        assert refused(team, "create", "-f", "-", given=given), given["kind"]
    assert not refused(team, "auth", "can-i", "create", "jobsets.jobset.x-k8s.io")
    for kind in ("deployments.apps", "cronjobs.batch", "daemonsets.apps", "replicasets.apps", "replicationcontrollers"):
        answer = team.plane.try_kubectl("auth", "can-i", "create", kind, user=team.account)
        assert answer.stdout.strip() == "no", kind


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("create", "pods/exec"), ("create", "pods/attach"), ("create", "pods/portforward"), ("patch", "pods"),
        ("create", "serviceaccounts/token"), ("create", "roles.rbac.authorization.k8s.io"),
        ("create", "rolebindings.rbac.authorization.k8s.io"), ("impersonate", "users"), ("update", "statefulsets.apps"),
        ("get", "configmaps"), ("get", "nodes"), ("list", "namespaces"),
        ("delete", "networkpolicies.networking.k8s.io"),
    ],
)  # fmt: skip
def test_the_account_may_not(team: Team, verb: str, resource: str) -> None:
    answer = team.plane.try_kubectl("auth", "can-i", verb, resource, user=team.account)
    assert answer.stdout.strip() == "no", answer.stdout + answer.stderr


def test_the_account_has_no_rights_in_other_namespaces(team: Team) -> None:
    for kind in ("pods", "jobsets.jobset.x-k8s.io", "mpijobs.kubeflow.org", "events"):
        answer = team.plane.try_kubectl("auth", "can-i", "list", kind, "--namespace", OTHERS, user=team.account)
        assert answer.stdout.strip() == "no", kind
    who = team.plane.try_kubectl("auth", "whoami", user=team.account)
    assert f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}" in who.stdout

"""What is applied to a cluster beside the runs: valid to the last field, least privilege, closed by default."""

import copy
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from tests.golden_files import FOLDER
from tests.manifest_schemas import pod_specs, privileges
from tests.security.shipped import KUBERNETES, Document, files, load

# Who may do this can give themselves all the rest, or read what is not theirs.
DANGEROUS_VERBS = {"*", "escalate", "bind", "impersonate", "deletecollection", "approve", "sign"}
DANGEROUS_RESOURCES = {"*", "pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token", "nodes/proxy"}
READABLE_SECRETS = {"mlpipeline-minio-artifact"}
"""Kubeflow's launcher reads the artifact store's key through the API; see pipeline-role.yaml."""


@pytest.fixture(scope="module")
def base(repository: Path) -> Path:
    return repository / "infra" / "kubernetes" / "base"


@pytest.fixture(scope="module")
def manifests() -> list[Document]:
    return [document for path in files("base") for document in load(path)]


def _of(manifests: list[Document], *kinds: str) -> list[Document]:
    return [document for document in manifests if document["kind"] in kinds]


def _name(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def rbac_problems(manifests: list[Document]) -> list[str]:
    """Returns rights that are too wide."""
    wrong = [f"{_name(found)}: of the whole cluster" for found in _of(manifests, "ClusterRole", "ClusterRoleBinding")]
    for role in _of(manifests, "Role"):
        for rule in role["rules"]:
            groups, resources, verbs = (set(rule.get(key, [])) for key in ("apiGroups", "resources", "verbs"))
            names = set(rule.get("resourceNames", []))
            wrong += [f"{_name(role)}: verb {verb}" for verb in sorted(verbs & DANGEROUS_VERBS)]
            wrong += [f"{_name(role)}: {resource}" for resource in sorted(resources & DANGEROUS_RESOURCES)]
            if "*" in groups or "rbac.authorization.k8s.io" in groups or "nonResourceURLs" in rule:
                wrong.append(f"{_name(role)}: groups {sorted(groups)}")
            if "secrets" in resources and not (verbs == {"get"} and names and names <= READABLE_SECRETS):
                wrong.append(f"{_name(role)}: secrets")
    for binding in _of(manifests, "RoleBinding"):
        wrong += [
            f"{_name(binding)}: binds {subject['kind']} {subject['name']}"
            for subject in binding["subjects"]
            if subject["kind"] != "ServiceAccount" or subject["name"] == "default"
        ]
        if binding["roleRef"]["kind"] != "Role":
            wrong.append(f"{_name(binding)}: a role of the whole cluster")
    return wrong


def namespaces(manifests: list[Document]) -> set[str]:
    """Returns all namespaces that are named; where none is, kustomize sets the one of the kustomization."""
    subjects = [subject for binding in _of(manifests, "RoleBinding") for subject in binding["subjects"]]
    named = [document["metadata"].get("namespace", "") for document in manifests if document["kind"] != "Namespace"]
    own = [document["metadata"]["name"] for document in _of(manifests, "Namespace")]
    return {*named, *own, *(subject.get("namespace", "") for subject in subjects)} - {""}


def test_manifests_are_valid_to_the_last_field(manifests: list[Document]) -> None:
    kinds = {document["kind"] for document in manifests}
    assert kinds == {"Namespace", "NetworkPolicy", "PersistentVolumeClaim", "Role", "RoleBinding", "ServiceAccount"}
    for document in manifests:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def _seeds() -> Iterator[Any]:
    changes: dict[str, Callable[[Document], Any]] = {
        "Namespace": lambda found: found["metadata"].update(label={}),
        "NetworkPolicy": lambda found: found["spec"].update(policyType=["Ingress"]),
        "PersistentVolumeClaim": lambda found: found["spec"].update(accessModes="ReadWriteMany"),
        "Role": lambda found: found["rules"][0].pop("verbs"),
        "RoleBinding": lambda found: found["roleRef"].pop("kind"),
        "ServiceAccount": lambda found: found.update(automountServiceAccountToken="no"),
    }
    return (pytest.param(kind, change, id=kind) for kind, change in changes.items())


@pytest.mark.parametrize(("kind", "change"), _seeds())
def test_a_mistake_in_any_kind_is_found(
    manifests: list[Document], kind: str, change: Callable[[Document], Any]
) -> None:
    wrong = copy.deepcopy(_of(manifests, kind)[0])
    change(wrong)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_rights_are_few_and_in_one_namespace(manifests: list[Document]) -> None:
    assert rbac_problems(manifests) == []
    assert namespaces(manifests) == {"kubeflow"}


def _rule(**changes: Any) -> Document:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]} | changes
    return {"kind": "Role", "metadata": {"name": "r"}, "rules": [rule]}


@pytest.mark.parametrize(
    ("seeded", "found"),
    [
        (_rule(verbs=["get", "*"]), "Role r: verb *"),
        (_rule(verbs=["escalate"]), "Role r: verb escalate"),
        (_rule(resources=["pods/exec"]), "Role r: pods/exec"),
        (_rule(resources=["*"]), "Role r: *"),
        (_rule(resources=["secrets"]), "Role r: secrets"),
        (_rule(resources=["secrets"], resourceNames=["sangam-alerts"]), "Role r: secrets"),
        (_rule(resources=["secrets"], resourceNames=[*READABLE_SECRETS], verbs=["get", "list"]), "Role r: secrets"),
        (_rule(apiGroups=["*"]), "Role r: groups ['*']"),
        (_rule(apiGroups=["rbac.authorization.k8s.io"]), "Role r: groups ['rbac.authorization.k8s.io']"),
        ({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []}, "ClusterRole r: of the whole cluster"),
    ],
)
def test_a_right_too_many_is_found(seeded: Document, found: str) -> None:
    assert found in rbac_problems([seeded])


def test_every_role_is_bound_and_every_binding_has_its_role(manifests: list[Document]) -> None:
    roles = {document["metadata"]["name"] for document in _of(manifests, "Role")}
    assert {document["roleRef"]["name"] for document in _of(manifests, "RoleBinding")} == roles
    accounts = {document["metadata"]["name"] for document in _of(manifests, "ServiceAccount")}
    bound = {subject["name"] for document in _of(manifests, "RoleBinding") for subject in document["subjects"]}
    assert bound == accounts


def test_pods_of_a_run_are_closed_unless_a_policy_opens_them(manifests: list[Document]) -> None:
    policies = {document["metadata"]["name"]: document["spec"] for document in _of(manifests, "NetworkPolicy")}
    training = policies["sangam-training"]
    assert training["policyTypes"] == ["Ingress", "Egress"]
    assert not training.keys() & {"ingress", "egress"}
    assert training["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "sangam"}}
    assert "ingress" not in policies["sangam-steps"]
    # Only this one opens anything to be entered, and it selects neither of the two.
    [opened] = [spec for spec in policies.values() if "ingress" in spec]
    selected = {item["key"]: item["operator"] for item in opened["podSelector"]["matchExpressions"]}
    assert selected == {"app.kubernetes.io/name": "NotIn", "pipelines.kubeflow.org/v2_component": "DoesNotExist"}


def test_claims_are_those_of_the_reference_specs(manifests: list[Document], repository: Path) -> None:
    claims = {document["metadata"]["name"]: document["spec"] for document in _of(manifests, "PersistentVolumeClaim")}
    for path in sorted((repository / "pipelines" / "specs").glob("*.yaml")):
        declared = load(path)[0]["cluster"]["volumes"].values()
        assert {volume["claim"] for volume in declared} <= claims.keys()
    assert all(spec["accessModes"] == ["ReadWriteMany"] for spec in claims.values())


@pytest.mark.parametrize("folder", ["base", "overlays/gke", "overlays/eks"])
def test_kustomize_builds_what_is_valid(base: Path, manifests: list[Document], folder: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: kustomizations are only read, not built")
    built = subprocess.run(
        ["kubectl", "kustomize", str(base.parent / folder)], capture_output=True, text=True, timeout=60, check=True
    )
    documents = [document for document in YAML(typ="safe").load_all(built.stdout) if document]
    assert sorted(map(_name, documents)) == sorted(map(_name, manifests))
    assert namespaces(documents) == {"kubeflow"}
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
        assert document["metadata"]["labels"]["app.kubernetes.io/part-of"] == "sangam"
    classes = [claim["spec"].get("storageClassName") for claim in _of(documents, "PersistentVolumeClaim")]
    assert all(classes) == (folder != "base")


def test_pods_of_training_have_no_token_and_no_privilege() -> None:
    rendered = sorted(FOLDER.glob("*.manifests.yaml"))
    assert rendered
    specs = [spec for path in rendered for document in load(path) for spec in pod_specs(document)]
    assert specs
    assert [privileges(spec) for spec in specs] == [[]] * len(specs)
    assert all(spec["automountServiceAccountToken"] is False for spec in specs)

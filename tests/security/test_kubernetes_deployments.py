"""The shipped Deployments of servers and online training: valid to the last field, without rights."""

from collections.abc import Callable

import kubernetes_validate
import pytest

from tests.manifest_schemas import privileges
from tests.security.shipped import FOLDER, KUBERNETES, KUSTOMIZATION, Document, by_kind, files, load

KINDS = {
    "online": {"Deployment", "NetworkPolicy", "ServiceAccount"},
    "serving": {
        "Deployment",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    },
}
BOTH = pytest.mark.parametrize("folder", sorted(KINDS))


@BOTH
def test_manifests_are_valid_to_the_last_field(folder: str) -> None:
    manifests = by_kind(folder)
    assert set(manifests) == KINDS[folder]
    for document in manifests.values():
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize(
    ("folder", "kind", "change"),
    [
        ("online", "Deployment", lambda found: found["spec"]["strategy"].update(kind="Recreate")),
        ("online", "NetworkPolicy", lambda found: found["spec"]["egress"][0].update(port=[])),
        ("serving", "Deployment", lambda found: found["spec"]["template"]["spec"]["containers"][0].update(probe={})),
        ("serving", "HorizontalPodAutoscaler", lambda found: found["spec"]["metrics"][0].update(resource="cpu")),
        ("serving", "NetworkPolicy", lambda found: found["spec"]["ingress"][0].update(port=[])),
        ("serving", "PodDisruptionBudget", lambda found: found["spec"].update(minUnavailable=1)),
        ("serving", "Service", lambda found: found["spec"]["ports"][0].update(target="grpc")),
        ("serving", "ServiceAccount", lambda found: found.update(automountToken=False)),
    ],
)
def test_a_mistake_in_any_kind_is_found(folder: str, kind: str, change: Callable[[Document], None]) -> None:
    document = by_kind(folder)[kind]
    change(document)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@BOTH
def test_a_pod_has_no_token_no_privilege_and_the_images_user(folder: str) -> None:
    manifests = by_kind(folder)
    spec, account = manifests["Deployment"]["spec"]["template"]["spec"], manifests["ServiceAccount"]
    assert privileges(spec) == []
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (10001, 10001)
    assert spec["serviceAccountName"] == account["metadata"]["name"]
    assert (spec["automountServiceAccountToken"], account["automountServiceAccountToken"]) == (False, False)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda spec: spec.update(hostNetwork=True), ["hostNetwork"]),
        (lambda spec: spec["securityContext"].update(runAsNonRoot=False), ["runAsNonRoot"]),
        (lambda spec: spec["securityContext"].pop("seccompProfile"), ["seccompProfile"]),
        (lambda spec: spec["volumes"].append({"name": "h", "hostPath": {"path": "/"}}), ["hostPath"]),
        (lambda spec: spec["containers"][0].pop("securityContext"),
         ["server: allowPrivilegeEscalation", "server: readOnlyRootFilesystem", "server: capabilities"]),
    ],
)  # fmt: skip
def test_a_privilege_is_found(change: Callable[[Document], None], found: list[str]) -> None:
    spec = by_kind("serving")["Deployment"]["spec"]["template"]["spec"]
    change(spec)
    assert privileges(spec) == found


@pytest.mark.parametrize("folder", ["base", *sorted(KINDS)])
def test_the_kustomization_names_every_file(folder: str) -> None:
    [kustomization] = load(FOLDER / folder / KUSTOMIZATION)
    assert sorted(kustomization["resources"]) == [path.name for path in files(folder)]


@BOTH
def test_it_is_closed_by_the_policy_of_all_pods(folder: str) -> None:
    [closed] = [
        document["spec"]
        for document in load(FOLDER / "base" / "network.yaml")
        if document["metadata"]["name"] == "sangam-training"
    ]
    labels = by_kind(folder)["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert closed["podSelector"]["matchLabels"].items() <= labels.items()
    assert closed["policyTypes"] == ["Ingress", "Egress"]

"""The namespace of the runs, made by the shipped manifests, with volumes that are folders of this machine."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.cluster.control_plane import ControlPlane, Manifest
from tests.cluster.image import USER
from tests.paths import REPOSITORY

KUBERNETES = REPOSITORY / "infra" / "kubernetes"
NAMESPACE = "kubeflow"
ACCOUNT = "sangam-pipeline"
ROOT_CLAIM, DATA_CLAIM = "sangam-root", "sangam-data"
SECURE_POD: Manifest = {
    "runAsUser": USER,
    "runAsGroup": USER,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SECURE_CONTAINER: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""What PodSecurity's `restricted` asks for, and a read-only root."""


@dataclass
class Team:
    """A prepared namespace.

    Attributes:
        plane: of its cluster.
        root: the folder of the claim for pipeline roots.
        data: the folder of the claim for logs.
    """

    plane: ControlPlane
    root: Path
    data: Path

    @cached_property
    def account(self) -> Path:
        """A kubeconfig of the shipped service account."""
        return self.plane.account(ACCOUNT, NAMESPACE)

    def kubectl(self, *arguments: str, given: object = None) -> str:
        """Runs kubectl in the namespace, as the administrator."""
        return self.plane.kubectl("--namespace", NAMESPACE, *arguments, given=given)

    def apply(self, *manifests: Manifest) -> None:
        """Applies manifests; an unknown field is an error."""
        self.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", given=list(manifests))

    def pods(self, selector: str) -> list[Manifest]:
        """Returns the pods that have these labels."""
        found: list[Manifest] = self.plane.get("pods", "--namespace", NAMESPACE, "--selector", selector)["items"]
        return found


def prepare(plane: ControlPlane) -> Team:
    """Applies infra/kubernetes/base, and makes its claims folders of this machine."""
    team = Team(plane, plane.folder / "volumes" / "root", plane.folder / "volumes" / "data")
    team.root.parent.mkdir()
    for folder in (team.root, team.data):
        folder.mkdir()
        # Threads of the tests write here as root, beside pods of another user.
        folder.chmod(0o777)
    plane.kubectl("apply", "--server-side", "--validate=strict", "-k", str(KUBERNETES / "base"))
    for claim, folder in ((ROOT_CLAIM, team.root), (DATA_CLAIM, team.data)):
        team.apply(volume(claim, folder))
    bound = ["wait", "--for=jsonpath={.status.phase}=Bound", "pvc", "--all", "--timeout=30s"]
    team.kubectl(*bound)
    plane.kubectl("label", "--overwrite", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    return team


def volume(claim: str, folder: Path, namespace: str = NAMESPACE) -> Manifest:
    """Returns a volume that is a folder of this machine and waits for a claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{claim}"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Ti"},
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace, "name": claim},
        },
    }

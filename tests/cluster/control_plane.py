"""A control plane: etcd, API server, controllers, scheduler, MPI operator, JobSet's controller with its webhooks."""

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.keys import AUTHORITY, SERVICE_ACCOUNTS, make_keys
from tests.cluster.programs import CRD_FILES, WEBHOOK_FILE
from tests.cluster.servers import Servers, accepts, free_port

LOOPBACK = "127.0.0.1"
ADMIN = "admin"
_GROUPS = {ADMIN: "system:masters", "kubelet": "system:masters"}
_SERVICES = "10.0.0.0/24"

Manifest = dict[str, Any]


@dataclass
class ControlPlane:
    """A running control plane.

    Attributes:
        servers: its processes.
        address: of the API server.
    """

    servers: Servers
    address: str

    @property
    def folder(self) -> Path:
        return self.servers.folder

    @property
    def admin(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / f"{ADMIN}.kubeconfig"

    def kubeconfig(self, user: str, token: str, namespace: str = "default") -> Path:
        """Writes how to reach the API server as a user."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.address, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
            "current-context": "x",
        }
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    def account(self, name: str, namespace: str) -> Path:
        """Returns a kubeconfig of a service account."""
        token = self.kubectl("create", "token", name, "--namespace", namespace, "--duration=6h").strip()
        return self.kubeconfig(f"{namespace}-{name}", token, namespace)

    def try_kubectl(
        self, *arguments: str, given: object = None, user: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Runs kubectl, as the administrator unless another kubeconfig is given.

        Args:
            arguments: of kubectl.
            given: its standard input: manifests, or a text.
            user: the kubeconfig.
        """
        command = [str(self.servers.programs / "kubectl"), "--kubeconfig", str(user or self.admin), *arguments]
        if isinstance(given, list):
            given = {"apiVersion": "v1", "kind": "List", "items": given}
        text = given if isinstance(given, str) or given is None else json.dumps(given)
        return subprocess.run(command, input=text, check=False, capture_output=True, text=True, cwd=self.folder)

    def start_kubectl(self, *arguments: str) -> "subprocess.Popen[str]":
        """Starts kubectl as the administrator, for what it prints as things happen."""
        command = [str(self.servers.programs / "kubectl"), "--kubeconfig", str(self.admin), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=self.folder)

    def kubectl(self, *arguments: str, given: object = None) -> str:
        """Runs kubectl as the administrator; returns what it printed."""
        done = self.try_kubectl(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """Returns what `kubectl get` finds, as data."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))


@contextmanager
def control_plane(programs: Path, folder: Path, host: str = LOOPBACK) -> Iterator[ControlPlane]:
    """Runs a control plane whose API server listens at an address of this host; the rest listens on loopback."""
    servers = Servers(programs, folder)
    make_keys(folder)
    try:
        plane = ControlPlane(servers, f"https://{host}:{free_port(host)}")
        _start_api_server(plane, host)
        _start_controllers(plane)
        _start_operators(plane)
        yield plane
    finally:
        servers.stop_all()


def _start_api_server(plane: ControlPlane, host: str) -> None:
    tokens = [f'{user}-token,{user},{user},"{group}"' for user, group in _GROUPS.items()]
    (plane.folder / "tokens.csv").write_text("\n".join(tokens) + "\n")
    for user in _GROUPS:
        plane.kubeconfig(user, f"{user}-token")
    etcd, peer = (f"http://{LOOPBACK}:{free_port()}" for _ in range(2))
    plane.servers.start(
        "etcd", "--data-dir=etcd", "--unsafe-no-fsync",
        f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
    )  # fmt: skip
    plane.servers.start(
        "kube-apiserver", f"--etcd-servers={etcd}", f"--bind-address={host}",
        f"--secure-port={plane.address.rpartition(':')[2]}", "--cert-dir=certificates",
        "--token-auth-file=tokens.csv", "--authorization-mode=RBAC", f"--service-cluster-ip-range={_SERVICES}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={SERVICE_ACCOUNTS}", f"--service-account-signing-key-file={SERVICE_ACCOUNTS}",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-client-certificate=client.crt", "--kubelet-client-key=client.key",
    )  # fmt: skip
    plane.servers.until(lambda: plane.try_kubectl("get", "--raw", "/readyz").returncode == 0, "the API server", 120)


def _start_controllers(plane: ControlPlane) -> None:
    shared = [f"--kubeconfig={plane.admin}", f"--bind-address={LOOPBACK}", "--leader-elect=false"]
    plane.servers.start(
        "kube-controller-manager", *shared, f"--secure-port={free_port()}", "--cert-dir=certificates-controllers",
        f"--service-account-private-key-file={SERVICE_ACCOUNTS}", "--root-ca-file=certificates/apiserver.crt",
        # A node that is away is noticed after seconds, not after 50.
        "--node-monitor-grace-period=20s",
    )  # fmt: skip
    plane.servers.start("kube-scheduler", *shared, f"--secure-port={free_port()}")


def _start_operators(plane: ControlPlane) -> None:
    for name in CRD_FILES:
        plane.kubectl("apply", "--server-side", "-f", str(plane.servers.programs / name))
    # kubectl gives up at once on a kind that has no conditions yet.
    wait = ["wait", "--for=condition=established", "crd", "--all", "--timeout=60s"]
    plane.servers.until(lambda: plane.try_kubectl(*wait).returncode == 0, "the custom kinds", 60)
    plane.servers.start("mpi-operator", f"--kubeConfig={plane.admin}", "-v=2")
    port = free_port()
    # Where they are on, as they are by default, the first two need a Secret and a Service in the cluster.
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": LOOPBACK, "port": port, "certDir": str(plane.folder / "webhook")},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
    }
    (plane.folder / "jobset.yaml").write_text(yaml.safe_dump(config))
    plane.servers.start("jobset", "--config=jobset.yaml", env={"KUBECONFIG": str(plane.admin)})
    plane.servers.until(lambda: accepts(LOOPBACK, port), "the webhooks of JobSet", 60)
    shipped = (plane.servers.programs / WEBHOOK_FILE).read_text()
    plane.kubectl("apply", "-f", "-", given=_webhooks(shipped, port, (plane.folder / AUTHORITY).read_bytes()))


def _webhooks(shipped: str, port: int, authority: bytes) -> list[Manifest]:
    """Returns JobSet's own webhook configurations with a URL for each Service, and for pods of JobSets only."""
    made = []
    for number, content in enumerate(yaml.safe_load_all(shipped)):
        content["metadata"]["name"] = f"jobset-{number}"
        for hook in content["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            bundle = base64.b64encode(authority).decode()
            hook["clientConfig"] = {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": bundle}
            if "pods" in hook["rules"][0]["resources"]:
                exists = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                hook["objectSelector"] = {"matchExpressions": [exists]}
        made.append(content)
    return made

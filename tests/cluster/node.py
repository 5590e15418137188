"""A node: containerd, kubelet, kube-proxy, CoreDNS, and a bridge that pods are connected to. Nothing is pulled.

It runs in namespaces of its own (isolation.py): addresses, rules and mounts are nobody else's, and end with them.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.control_plane import LOOPBACK, ControlPlane, Manifest
from tests.cluster.image import ENVIRONMENT, MOUNTED, PAUSE, write_image
from tests.cluster.keys import AUTHORITY
from tests.cluster.remains import make_groups
from tests.cluster.servers import free_port
from tests.paths import REPOSITORY

BRIDGE, SUBNET, GATEWAY = "sangam0", "10.88.0.0/24", "10.88.0.1"
_BRIDGE_MAC = "0a:58:0a:58:00:01"
NAME = "node-1"
DOMAIN = "cluster.local"
_START_S = 60


@dataclass
class Node:
    """A running node.

    Attributes:
        plane: its control plane.
        image: what its pods run, by digest.
    """

    plane: ControlPlane
    image: str


def _folder(plane: ControlPlane) -> Path:
    return plane.folder / "node"


def add_bridge() -> None:
    """Makes the bridge with its address, before the API server listens there and the first pod is connected."""
    for arguments in (
        # With an address of its own: by default a bridge takes the lowest of its ports', which changes as pods come and
        # go, and whoever still knows the old one reaches neither CoreDNS nor the API server for half a minute.
        ["link", "add", BRIDGE, "address", _BRIDGE_MAC, "type", "bridge"],
        ["addr", "add", f"{GATEWAY}/24", "dev", BRIDGE],
        ["link", "set", BRIDGE, "up"],
        # Without a default route, kube-proxy finds no address of this node.
        ["route", "add", "default", "dev", BRIDGE],
    ):
        subprocess.run(["ip", *arguments], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


@contextmanager
def node(plane: ControlPlane, image: Path | None = None) -> Iterator[Node]:
    """Runs a node.

    Args:
        plane: its control plane, which listens at GATEWAY.
        image: an OCI archive that holds one image; None for an empty root with this machine's /usr, this Python and
            this repository.
    """
    folder = _folder(plane)
    (folder / "cni").mkdir(parents=True)
    reference = write_image(folder / "image.tar", plane.servers.programs / "pause")
    try:
        _start_containerd(plane, mounted=image is None)
        _ctr(folder, "images", "import", str(folder / "image.tar"))
        if image:
            reference = _import(folder, image)
        _start_kubelet(plane)
        _start_network(plane)
        yield Node(plane, reference)
    finally:
        _stop(plane)


def _start_containerd(plane: ControlPlane, *, mounted: bool) -> None:
    folder = _folder(plane)
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_network(folder)))
    base = json.loads(subprocess.run(["ctr", "oci", "spec"], check=True, capture_output=True).stdout)
    # What `ctr` gives as an example is in the way of the image's own.
    base["process"].pop("args", None)
    if mounted:
        folders = {"/usr": "/usr", sys.base_prefix: sys.base_prefix, str(REPOSITORY): MOUNTED, sys.prefix: ENVIRONMENT}
        base["mounts"] += [_read_only(source, target) for source, target in folders.items()]
    (folder / "base.json").write_text(json.dumps(base))
    (folder / "containerd.toml").write_text(_containerd(folder))
    plane.servers.start(
        "containerd", f"--config={folder / 'containerd.toml'}", program=shutil.which("containerd") or "containerd"
    )
    plane.servers.until(lambda: _ctr(folder, "version", check=False).returncode == 0, "containerd", _START_S)


def _read_only(source: str, target: str) -> dict[str, object]:
    return {"destination": target, "type": "bind", "source": source, "options": ["rbind", "ro"]}


def _import(folder: Path, archive: Path) -> str:
    """Imports the image of an archive; returns its reference by digest."""
    name = "registry.example/built"
    _ctr(folder, "images", "import", "--digests", "--base-name", name, str(archive))
    names = _ctr(folder, "images", "list", "-q").stdout.split()
    return next(each for each in names if each.startswith(f"{name}@"))


def _ctr(folder: Path, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    command = ["ctr", f"--address={folder / 'containerd.sock'}", "--namespace=k8s.io", *arguments]
    return subprocess.run(command, check=check, capture_output=True, text=True)


def _network(folder: Path) -> Manifest:
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "dataDir": str(folder / "addresses"),
            "ranges": [[{"subnet": SUBNET}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _containerd(folder: Path) -> str:
    return f"""version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  # Without CAP_SYS_RESOURCE, as in many virtual machines and containers, runc cannot lower it, and says only EOF.
  restrict_oom_score_adj = true
  stream_server_address = "{LOOPBACK}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{folder}/base.json"
"""


def _start_kubelet(plane: ControlPlane) -> None:
    folder = _folder(plane)
    make_groups(plane.folder.name)
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(plane.folder, folder)))
    (folder / "resolv.conf").write_text("")
    plane.servers.start(
        "kubelet", f"--config={folder / 'kubelet.yaml'}", f"--kubeconfig={plane.folder / 'kubelet.kubeconfig'}",
        f"--hostname-override={NAME}", f"--root-dir={folder / 'kubelet'}", f"--cert-dir={folder / 'kubelet-keys'}",
        f"--node-ip={GATEWAY}",
    )  # fmt: skip
    is_there = ["wait", "--for=create", f"node/{NAME}", "--timeout=0s"]
    plane.servers.until(lambda: plane.try_kubectl(*is_there).returncode == 0, "the node", _START_S)
    is_ready = ["wait", "--for=condition=ready", f"node/{NAME}", "--timeout=0s"]
    plane.servers.until(lambda: plane.try_kubectl(*is_ready).returncode == 0, "the node is ready", _START_S)


def _kubelet(folder: Path, own: Path) -> Manifest:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": GATEWAY,
        "healthzBindAddress": LOOPBACK,
        "authentication": {"x509": {"clientCAFile": str(folder / AUTHORITY)}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": str(folder / "kubelet.crt"),
        "tlsPrivateKeyFile": str(folder / "kubelet.key"),
        "containerRuntimeEndpoint": f"unix://{own / 'containerd.sock'}",
        "podLogsDir": str(own / "logs"),
        "cgroupDriver": "cgroupfs",
        # Of its own: a kubelet removes the pods of any other that it finds in its root.
        "cgroupRoot": f"/{folder.name}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "failCgroupV1": False,
        "clusterDNS": [GATEWAY],
        "clusterDomain": DOMAIN,
        "resolvConf": str(own / "resolv.conf"),
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        # The default ten seconds between two reports of a node would be most of a fault's time.
        "nodeStatusUpdateFrequency": "4s",
        "syncFrequency": "10s",
    }


def _start_network(plane: ControlPlane) -> None:
    """Starts what leads pods to each other by the names and addresses of Services."""
    corefile = f""".:53 {{
    bind {GATEWAY}
    errors
    kubernetes {DOMAIN} {{
        kubeconfig {plane.admin}
        ttl 1
    }}
}}
"""
    (plane.folder / "Corefile").write_text(corefile)
    plane.servers.start("coredns", "-conf", "Corefile")
    plane.servers.start(
        "kube-proxy", f"--kubeconfig={plane.admin}", "--proxy-mode=iptables", f"--hostname-override={NAME}",
        f"--bind-address={GATEWAY}", f"--healthz-bind-address={LOOPBACK}:{free_port()}",
        f"--metrics-bind-address={LOOPBACK}:{free_port()}", "--masquerade-all",
        # Zero leaves the machine's own limits of tracked connections alone.
        "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    )  # fmt: skip


def _stop(plane: ControlPlane) -> None:
    """Ends the node's programs, and the containers that outlive them."""
    for name in ("kubelet", "kube-proxy", "coredns"):
        if plane.servers.is_running(name):
            plane.servers.stop(name)
    if plane.servers.is_running("containerd"):
        folder = _folder(plane)
        for container in _ctr(folder, "containers", "list", "-q", check=False).stdout.split():
            _ctr(folder, "tasks", "delete", "--force", container, check=False)
            _ctr(folder, "containers", "delete", container, check=False)
        plane.servers.stop("containerd")

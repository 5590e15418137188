"""Builds the programs of a Kubernetes cluster from Go modules, once for each version of their sources.

`python -m tests.cluster.programs` builds them ahead of the tests and prints their folder.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent / "programs"
_CONTROL_PLANE, _OPERATORS = SOURCES / "control_plane", SOURCES / "operators"
_LINKS = {
    "control-plane": (
        "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl",
    ),
    "mpi-operator": ("coredns",),
}  # fmt: skip
_CRDS = {
    "sigs.k8s.io/jobset": ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    "github.com/kubeflow/mpi-operator": ("manifests/base/kubeflow.org_mpijobs.yaml",),
}
_WEBHOOKS = {"sigs.k8s.io/jobset": ("config/components/webhook/manifests.yaml",)}
CRD_FILES = tuple(Path(name).name for names in _CRDS.values() for name in names)
WEBHOOK_FILE = "manifests.yaml"


def folder() -> Path:
    """Returns where the programs of these sources are, or will be: in the user's cache, outside the repository.

    Go's own build cache would do too, with 4 GB in place of 0.3 GB.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(SOURCES.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return cache / "sangam" / "cluster" / digest.hexdigest()[:16]


def build() -> Path:
    """Returns the folder of the programs, after building them if they are not there."""
    made = folder()
    made.parent.mkdir(parents=True, exist_ok=True)
    with _locked(made.parent / "lock"):
        if not made.exists():
            began = time.monotonic()
            print("cluster: building Kubernetes from Go modules, about 8 minutes on 2 idle cores", flush=True)
            unfinished = made.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            _build(unfinished)
            for older in made.parent.glob("[0-9a-f]*"):
                if older != unfinished:
                    shutil.rmtree(older)
            unfinished.rename(made)
            print(f"cluster: built in {time.monotonic() - began:.0f} s, into {made}", flush=True)
    return made


def _build(into: Path) -> None:
    into.mkdir()
    version = _module(_CONTROL_PLANE, "k8s.io/kubernetes")["Version"]
    stamp = "k8s.io/component-base/version"
    # Without these the API server calls itself v0.0.0-master.
    minor = version.split(".")[1]
    stamps = f"-X {stamp}.gitVersion={version} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={minor}"
    _go_build(_CONTROL_PLANE, ".", into / "control-plane", stamps)
    _go_build(_CONTROL_PLANE, "./pause", into / "pause")
    _go_build(_CONTROL_PLANE, "sigs.k8s.io/jobset", into / "jobset")
    _go_build(_OPERATORS, ".", into / "mpi-operator")
    for program, names in _LINKS.items():
        for name in names:
            (into / name).symlink_to(program)
    for files in (_CRDS, _WEBHOOKS):
        for module, names in files.items():
            source = _CONTROL_PLANE if "jobset" in module else _OPERATORS
            for name in names:
                content = (Path(_module(source, module)["Dir"]) / name).read_bytes()
                (into / Path(name).name).write_bytes(content)


def _module(source: Path, path: str) -> dict[str, str]:
    listed = subprocess.run(["go", "list", "-m", "-json", path], cwd=source, check=True, capture_output=True)
    found: dict[str, str] = json.loads(listed.stdout)
    return found


def _go_build(source: Path, package: str, output: Path, stamps: str = "") -> None:
    # Statically linked: pods of another image than the tests' own run `pause` too.
    command = ["go", "build", "-p=2", "-trimpath", "-mod=readonly", "-ldflags", f"-s -w {stamps}", "-o", str(output)]
    # Go would download another version of itself.
    own = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    subprocess.run([*command, package], cwd=source, check=True, env=os.environ | own)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock over processes, so that two test runs do not build the same."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    print(build())

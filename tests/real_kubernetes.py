"""`make itest-k8s`: the objects of a training job on a real API server, created and removed as the step does it.

Needs the binaries `etcd` and `kube-apiserver` (those of envtest: KUBEBUILDER_ASSETS, or the PATH), openssl, and the CRD
of MPIJob; SANGAM_JOBSET_CRD names the file of JobSet's. There are no controllers: this shows that a real server takes
what is sent, from a user with the rights of the shipped Role and no others; the rest is shown on a server of our own.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import yaml
from lightkube import Client, KubeConfig
from lightkube.codecs import load_all_yaml
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Namespace
from lightkube.resources.rbac_authorization_v1 import Role, RoleBinding

from components.steps.trainer.kubernetes.connection import connect
from components.steps.trainer.kubernetes.manifests import render
from components.steps.trainer.kubernetes.objects import Objects
from components.steps.trainer.kubernetes.timing import Timing
from components.steps.trainer.kubernetes.verdict import coordinator_job
from tests.components.steps.trainer.kubernetes.sample_run import ROLE, training_run
from tests.manifest_schemas import MPIJOB_CRD

NAMESPACE = "team-a"
_READY_S = 60.0


def missing() -> str:
    """Returns why this cannot be run; empty if it can."""
    absent = [name for name in ("etcd", "kube-apiserver", "openssl") if binary(name) is None]
    if absent:
        return (
            f"no {', no '.join(absent)} found; set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver "
            "(setup-envtest fetches them; Debian packages etcd-server but no kube-apiserver)"
        )
    return "" if MPIJOB_CRD.exists() else f"no MPIJob CRD at {MPIJOB_CRD}"


def binary(name: str) -> str | None:
    """Returns the path of a program."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    return shutil.which(name, path=os.pathsep.join(filter(None, [assets, os.environ.get("PATH")])))


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """Runs etcd and kube-apiserver; yields the latter's address."""
    etcd, peer, port = (_free_port() for _ in range(3))
    key = folder / "sa.key"
    subprocess.run([str(binary("openssl")), "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    (folder / "tokens.csv").write_text('admin-token,admin,1,"system:masters"\nstep-token,step,2\n')
    commands = [
        [
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        ],
        [
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'certificates'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
        ],
    ]
    with contextlib.ExitStack() as stack:
        for name, *arguments in commands:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen([str(binary(name)), *arguments], stdout=log, stderr=log)
            stack.callback(_stop, process)
        yield f"https://127.0.0.1:{port}"


def kubeconfig(folder: Path, address: str, user: str) -> Path:
    """Writes how to reach the server as a user."""
    cluster = {"name": "c", "cluster": {"server": address, "insecure-skip-tls-verify": True}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}
    users = [{"name": "u", "user": {"token": f"{user}-token"}}]
    path = folder / f"{user}.kubeconfig"
    path.write_text(
        yaml.safe_dump({"clusters": [cluster], "users": users, "contexts": [context], "current-context": "x"})
    )
    return path


def prepare(admin: Client, crds: list[Path]) -> None:
    """Creates namespace, rights and custom kinds."""
    _until_ready(admin)
    admin.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    [role] = [each for each in load_all_yaml(ROLE.read_text()) if isinstance(each, Role)]
    assert role.metadata is not None
    role.metadata.namespace = NAMESPACE
    admin.create(role)
    binding = {
        "metadata": {"name": "step", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role.metadata.name},
        "subjects": [{"kind": "User", "name": "step", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    admin.create(RoleBinding.from_dict(binding))
    for crd in crds:
        made = admin.create(CustomResourceDefinition.from_dict(yaml.safe_load(crd.read_text())))
        admin.wait(CustomResourceDefinition, str(made.metadata and made.metadata.name), for_conditions=["Established"])


async def create_and_delete(admin: Client, kind: str) -> list[str]:
    """Does what the step does, with this process as the operator; returns what was created."""
    run = training_run(kind)
    manifests = render(run)
    async with connect(Timing()) as api:
        objects = Objects(api, run, manifests)
        starting = asyncio.create_task(objects.start(before=lambda: None))
        if kind == "mpijob":
            pod = PodTemplateSpec(
                spec=PodSpec(containers=[Container(name="c", image="registry.example/c")], restartPolicy="Never")
            )
            meta = ObjectMeta(name=coordinator_job(run), namespace=NAMESPACE)
            await asyncio.to_thread(admin.create, Job(metadata=meta, spec=JobSpec(suspend=True, template=pod)))
        await starting
        created = []
        for each in manifests.all:
            assert each.metadata is not None
            found: Any = admin.get(type(each), str(each.metadata.name), namespace=NAMESPACE)
            created.append(f"{type(each).__name__}/{found.metadata.name}")
        assert await objects.remove(), "the job is still there"
    # Without controllers nobody else collects what the job owned.
    for each in manifests.all[1:]:
        admin.delete(type(each), str(each.metadata and each.metadata.name), namespace=NAMESPACE)
    return created


def main() -> int:
    """Runs it; returns the exit code."""
    if why := missing():
        print(f"itest-k8s: skipped: {why}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="itest-k8s-"))
    jobset_crd = os.environ.get("SANGAM_JOBSET_CRD")
    kinds = {"mpijob": MPIJOB_CRD} | ({"jobset": Path(jobset_crd)} if jobset_crd else {})
    try:
        with server(folder) as address:
            admin = Client(KubeConfig.from_file(kubeconfig(folder, address, "admin")))
            prepare(admin, list(kinds.values()))
            os.environ["KUBECONFIG"] = str(kubeconfig(folder, address, "step"))
            for kind in kinds:
                print(f"itest-k8s: {kind}: created and removed", *asyncio.run(create_and_delete(admin, kind)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not jobset_crd:
        print("itest-k8s: jobset: skipped: SANGAM_JOBSET_CRD names no CRD file")
    return 0


def _until_ready(admin: Client) -> None:
    until = time.monotonic() + _READY_S
    while True:
        try:
            admin.get(Namespace, "default")
            return
        except httpx.HTTPError as error:
            if time.monotonic() > until:
                raise SystemExit(f"itest-k8s: kube-apiserver does not serve after {_READY_S:.0f} s: {error}") from error
            time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())

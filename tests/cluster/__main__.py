"""`make test-cluster`: the tests that need a real Kubernetes, in namespaces of their own.

Arguments go to pytest. Where something is lacking it says what, and runs the tests that do not need it; with CI=true it
fails instead.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sangam.schemas.contracts.exit_codes import ExitCode
from tests.cluster import programs
from tests.cluster.conftest import FOLDER_VARIABLE, NODE_MARKER, PROGRAMS_VARIABLE
from tests.cluster.isolation import isolated
from tests.cluster.remains import machine, put_back, remains
from tests.kafka import broker

_NODE_PROGRAMS = {
    "containerd": "containerd", "ctr": "containerd", "runc": "runc", "ip": "iproute2", "iptables": "iptables",
    "/usr/lib/cni/bridge": "containernetworking-plugins", "unshare": "util-linux",
}  # fmt: skip


def lacking_for_all() -> list[str]:
    """Returns what no test can do without, in words."""
    needed = {"openssl": "openssl (a package of that name)"}
    if not programs.folder().exists():
        needed["go"] = "Go (1.25 or later), to build Kubernetes once"
    return [words for program, words in needed.items() if not shutil.which(program)]


def lacking_for_node() -> list[str]:
    """Returns what a node needs beyond that, in words."""
    packages = sorted({package for program, package in _NODE_PROGRAMS.items() if not shutil.which(program)})
    found = [f"packages of Debian: apt-get install --no-install-recommends {' '.join(packages)}"] if packages else []
    return found if os.geteuid() == 0 else [*found, "root"]


def main(arguments: Sequence[str]) -> int:
    """Runs the tests; returns the exit code."""
    for_all, for_node = lacking_for_all(), lacking_for_node()
    for_broker = broker.lacking()
    is_ci = os.environ.get("CI") == "true"
    if for_all or ((for_node or for_broker) and is_ci):
        print("test-cluster: lacks " + "; ".join([*for_all, *for_node, *filter(None, [for_broker])]))
        return 1 if is_ci else 0
    if for_broker:
        print(f"test-cluster: tests of online training are left out: lacks {for_broker}")
    else:
        broker.fetch()  # Within the namespaces nothing can be fetched.
    if for_node:
        print(f"test-cluster: tests of a node are left out: lacks {'; '.join(for_node)}")
    built = programs.build()
    folder = Path(tempfile.mkdtemp(prefix="sangam-cluster-"))
    # Pods are of another user.
    folder.chmod(0o755)
    before = machine(str(folder))
    # Whoever ends this process by SIGTERM wants the machine as it was too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = _run(built, folder, arguments, has_node=not for_node)
    finally:
        if not for_node:
            put_back(before, folder.name)
    left = remains(before, machine(str(folder)))
    if code:
        print(f"test-cluster: logs are in {folder}")
    else:
        shutil.rmtree(folder)
    if left:
        print("test-cluster: left on this machine:", *left, sep="\n  ")
    return code or bool(left)


def _run(built: Path, folder: Path, arguments: Sequence[str], *, has_node: bool) -> int:
    command = [sys.executable, "-m", "pytest", str(Path(__file__).parent), *arguments]
    env = os.environ | {PROGRAMS_VARIABLE: str(built), FOLDER_VARIABLE: str(folder)}
    command = isolated(command) if has_node else [*command, "-m", f"not {NODE_MARKER}"]
    with subprocess.Popen(command, env=env) as tests:
        try:
            return tests.wait()
        except KeyboardInterrupt:
            # With namespaces this ends all that is in them.
            tests.terminate()
            tests.wait()
            return ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs a command in namespaces of its own, so that what a node does to a machine ends with it.

Processes, mounts, network links, addresses, iptables rules and `net.*` settings are those of the namespaces. Control
groups and other kernel settings are the machine's: remains.py puts those back.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from sangam.schemas.contracts.exit_codes import of_signal

VARIABLE = "SANGAM_CLUSTER_ISOLATED"
_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# containerd, the CNI plugins and the kubelet keep state here, whatever folders they are given.
_HIDDEN = ("/run", "/var/lib", "/var/log")


def isolated(command: Sequence[str]) -> list[str]:
    """Returns the command that runs another in new namespaces. It takes root."""
    return [*_UNSHARE, sys.executable, "-m", __spec__.name, *command]


def is_isolated() -> bool:
    """Returns whether this process runs in them."""
    return VARIABLE in os.environ


def main(command: Sequence[str]) -> int:
    """Runs the command as the first process of the namespaces, which also reaps what loses its parent."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for path in _HIDDEN:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", path], check=True)
    child = subprocess.Popen(command, env=os.environ | {VARIABLE: "1"})

    def pass_on(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    # A terminal sends Ctrl-C to the command too.
    signal.signal(signal.SIGINT, lambda *_: None)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            return of_signal(-code) if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Moves a process into a network namespace, as `ip netns exec` does when it starts a program."""

import ctypes
import os
from pathlib import Path

HOSTS_FILES = Path("/etc/netns")
"""What lies in the folder of a namespace is seen in it in place of the files in /etc: see ip-netns(8)."""
_NAMESPACES = Path("/run/netns")
_CLONE_NEWNET, _CLONE_NEWNS = 0x40000000, 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000


def enter(name: str) -> None:
    """Moves this process, which has no threads yet, into a network namespace."""
    system = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(_NAMESPACES / name, os.O_RDONLY)
    _check(system.setns(namespace, _CLONE_NEWNET), "setns")
    os.close(namespace)
    _check(system.unshare(_CLONE_NEWNS), "unshare")
    _check(system.mount(None, b"/", None, _MS_SLAVE | _MS_REC, None), "mount /")
    for file in (HOSTS_FILES / name).iterdir():
        place = Path("/etc", file.name)
        _check(system.mount(os.fsencode(file), os.fsencode(place), None, _MS_BIND, None), f"mount {place}")


def _check(code: int, what: str) -> None:
    if code:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")

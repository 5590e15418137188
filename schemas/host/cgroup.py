"""The memory and the cores that the kernel grants to this process, and whether it has killed one for lack of memory.

Reads cgroups of version 2 and 1 (Linux, admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, scheduler/sched-bwc.rst). With
version 1, or with the kubelet's `singleProcessOOMKill`, the kernel kills one process of a container without notice to
the others.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sangam.schemas.quantities import shown_bytes

_MOUNT, _OWN, _VMSTAT = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"), Path("/proc/vmstat")
_NO_LIMIT = 1 << 60
"""Version 1 has no word for it, but a number of pages that no machine has."""


class _Files(NamedTuple):
    limit: str
    used: str
    reclaimable: str
    kills: str


_VERSION_1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control")
_VERSION_2 = _Files("memory.max", "memory.current", "inactive_file", "memory.events")


class Cgroup:
    """A cgroup's memory; unknown values are None."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._files = _VERSION_1 if (folder / _VERSION_1.limit).exists() else _VERSION_2

    def limit_bytes(self) -> int | None:
        """Returns the limit."""
        limit = _number(self._folder / self._files.limit)
        return limit if limit is not None and limit < _NO_LIMIT else None

    def left_bytes(self) -> int | None:
        """Returns the rest of the limit."""
        limit, used = self.limit_bytes(), _number(self._folder / self._files.used)
        if limit is None or used is None:
            return None
        # The page cache of files counts as used, but makes room when it is needed.
        return max(0, limit - used + (_field(self._folder / "memory.stat", self._files.reclaimable) or 0))

    def kills(self) -> int | None:
        """Returns how many processes the kernel has killed for lack of memory, whosever limit they met."""
        return _field(self._folder / self._files.kills, "oom_kill")


def own_cgroups(mount: Path = _MOUNT, own: Path = _OWN) -> list[Cgroup]:
    """Returns the cgroup of this process, and its visible parents.

    Args:
        mount: mount point of cgroups.
        own: file with the paths of this process's.
    """
    return [Cgroup(folder) for folder in _folders("memory", mount, own)]


def usable_cores(mount: Path = _MOUNT, own: Path = _OWN) -> float:
    """Returns the number of cores that this process may keep busy: those of its affinity, within its cgroups' quotas.

    Args:
        mount: mount point of cgroups.
        own: file with the paths of this process's.
    """
    quotas = [_quota(folder) for folder in _folders("cpu", mount, own)]
    return min([float(len(os.sched_getaffinity(0))), *filter(None, quotas)])


def _quota(folder: Path) -> float | None:
    """Returns the cores whose time a cgroup's processes may use together; None without a limit."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        of_version_1 = (_number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us"))
        quota, period = (str(number or 0) for number in of_version_1)
    is_limited = quota.isdecimal() and period.isdecimal() and int(quota) and int(period)
    return int(quota) / int(period) if is_limited else None


def _folders(controller: str, mount: Path, own: Path) -> list[Path]:
    """Returns the folder of this process's cgroup that has a controller, and its visible parents."""
    lines = [line.split(":", 2) for line in own.read_text().splitlines()] if own.exists() else []
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    root = mount / controller if controller in paths else mount
    # A container without a namespace of cgroups reads the path on its node, and has its own cgroup mounted.
    folder = root / paths.get(controller, paths.get("", "/")).lstrip("/")
    folder = folder if folder.is_dir() else root
    return [each for each in (folder, *folder.parents) if each.is_relative_to(root)]


@dataclass(frozen=True)
class OutOfMemory:
    """The kernel has killed a process for lack of memory.

    Attributes:
        limit_bytes: the smallest of its cgroups; None: all memory of the machine was in use.
    """

    limit_bytes: int | None

    def __str__(self) -> str:
        if self.limit_bytes is None:
            machine = shown_bytes(_machine_bytes())
            return f"was killed; meanwhile the kernel has killed for lack of memory (got a machine of {machine})"
        return f"was killed by the kernel at its limit of memory (got {shown_bytes(self.limit_bytes)})"


class OomWatch:
    """Begins before a process does, and says after its end by SIGKILL whether it lacked memory."""

    def __init__(self, cgroups: Sequence[Cgroup] | None = None, vmstat: Path = _VMSTAT):
        self._cgroups = own_cgroups() if cgroups is None else cgroups
        self._vmstat = vmstat
        self._before = self._kills()

    def out_of_memory(self) -> OutOfMemory | None:
        """Returns the kernel's record of a kill since; None without a kill or a record."""
        now = self._kills()
        if self._before is None or now is None or now <= self._before:
            return None
        return OutOfMemory(min(filter(None, (each.limit_bytes() for each in self._cgroups)), default=None))

    def _kills(self) -> int | None:
        """Returns the count of this process's cgroup; without one, of the machine."""
        kills = self._cgroups[0].kills() if self._cgroups else None
        return _field(self._vmstat, "oom_kill") if kills is None else kills


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _field(file: Path, name: str) -> int | None:
    """Returns the number in the line `name number` of a file."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return None
    return next((int(line[1]) for line in lines if line[:1] == [name] and len(line) == 2), None)

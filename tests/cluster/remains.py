"""What a cluster could leave on a machine: taken before and after, put back where that is possible, and compared."""

import errno
import os
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_END_S = 10.0
_CGROUPS = Path("/sys/fs/cgroup")
_SYSCTLS = Path("/proc/sys")
# Counters and states, which change by themselves.
_VOLATILE = ("kernel/random/", "kernel/ns_last_pid", "kernel/pty/", "fs/dentry-state", "fs/inode-", "fs/file-nr")
_FOLDERS = ("/run/containerd", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")


@dataclass(frozen=True)
class Machine:
    """The parts of a machine's state that a cluster changes.

    Attributes:
        settings: kernel settings, by name.
        things: mounts, links, iptables rules, control groups, folders, processes: each in words.
    """

    settings: dict[str, str]
    things: frozenset[str]


def machine(*marks: str) -> Machine:
    """Returns the present state; mounts, processes and control groups are those that have a mark in their names."""
    groups = [f"control group {path}" for mark in marks for path in _groups(Path(mark).name)]
    things = [*_mounts(marks), *_links(), *_rules(), *groups, *_folders(), *_processes(marks)]
    return Machine(_settings(), frozenset(things))


def make_groups(name: str) -> None:
    """Makes a control group of this name in each hierarchy, or in the only one."""
    is_unified = (_CGROUPS / "cgroup.controllers").exists()
    for hierarchy in [_CGROUPS] if is_unified else _CGROUPS.iterdir():
        if hierarchy.is_dir() and not hierarchy.is_symlink():
            (hierarchy / name).mkdir()


def put_back(before: Machine, group_name: str) -> None:
    """Undoes what namespaces do not undo: kernel settings, and control groups of this name."""
    for name, value in _settings().items():
        if name in before.settings and before.settings[name] != value:
            (_SYSCTLS / name).write_text(before.settings[name])
    for group in _groups(group_name):
        # Leaves first; files in them are the kernel's.
        for folder in [*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group]:
            _remove_group(folder)


def _remove_group(folder: Path) -> None:
    """Removes a control group, the last processes of which may be ending."""
    deadline = time.monotonic() + _END_S
    while True:
        try:
            folder.rmdir()
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def remains(before: Machine, after: Machine) -> list[str]:
    """Returns in words what is there after but was not before, and what has another value."""
    changed = [
        f"kernel setting {name} is {after.settings[name]!r}, was {value!r}"
        for name, value in before.settings.items()
        if after.settings.get(name, value) != value
    ]
    return sorted(after.things - before.things) + changed


def _settings() -> dict[str, str]:
    found = {}
    for folder, _, names in os.walk(_SYSCTLS):
        for name in names:
            path = Path(folder) / name
            key = str(path.relative_to(_SYSCTLS))
            if path.stat().st_mode & 0o200 and not key.startswith(_VOLATILE):
                with suppress(OSError, UnicodeDecodeError):
                    found[key] = path.read_text()
    return found


def _mounts(marks: tuple[str, ...]) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [f"mount {point}" for point in points if point.startswith((*marks, *_FOLDERS))]


def _links() -> list[str]:
    return [f"network link {path.name}" for path in Path("/sys/class/net").iterdir()]


def _rules() -> list[str]:
    if os.geteuid() != 0 or not shutil.which("iptables-save"):
        return []
    saved = subprocess.run(["iptables-save"], check=True, capture_output=True, text=True)
    # Other lines are comments, and counters of packets.
    return [f"iptables rule {line}" for line in saved.stdout.splitlines() if line.startswith("-A")]


def _groups(name: str) -> list[Path]:
    return [*_CGROUPS.glob(name), *_CGROUPS.glob(f"*/{name}")]


def _folders() -> list[str]:
    return [f"folder {name}" for name in _FOLDERS if Path(name).exists()]


def _processes(marks: tuple[str, ...]) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if any(mark in f"{command} {(folder / 'cwd').readlink()}" for mark in marks):
                found.append(f"process {folder.name} {command.strip()[:200]}")
    return found

"""Runs a command as a pod would: as user 10001 without a name, no capability, on a root file system that is read-only.

    python -m tests.security.as_in_a_pod --volume demo/root --volume demo/logs:ro -- sangam validate SPEC

Writable are /tmp and /dev/shm, both new and empty, and volumes, which the command sees as /mnt/<name of the folder>.
The environment is that of the images. Takes root, and leaves nothing behind: mounts are of this process alone.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.paths import REPOSITORY
from tests.security.dockerfile import environment, read

_USER = "10001"
_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS of linux/sched.h
_STAYS_AS_IT_IS = ("/proc", "/sys", "/dev")


def why_not() -> str:
    """Returns why this machine cannot do it; empty if it can."""
    if os.getuid() != 0:
        return "mounts take root"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


def command_line(command: Sequence[str], volumes: Sequence[str] = ()) -> list[str]:
    """Returns what to start; the environment is made there."""
    options = [f"--volume={volume}" for volume in volumes]
    return [sys.executable, "-m", "tests.security.as_in_a_pod", *options, "--", *command]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _mounted() -> list[str]:
    found = subprocess.run(["findmnt", "--json", "--list", "--output", "TARGET"], capture_output=True, check=True)
    return [mount["target"] for mount in json.loads(found.stdout)["filesystems"]]


def _needed() -> list[Path]:
    """Returns the folders that a command cannot do without: Python's, the environment's, the repository."""
    found = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), REPOSITORY}
    return [path for path in found if not found & set(path.parents)]


def _closed_to_others(path: Path) -> Path | None:
    """Returns the outermost folder on the way that only its owner may enter, as /root is."""
    return next((parent for parent in [*path.parents][::-1] if not parent.stat().st_mode & 0o001), None)


def _cover(target: Path, mode: str) -> None:
    """Puts an empty folder over one, in which only what is needed is still to be found, at the same paths."""
    inside = [path for path in _needed() if path.is_relative_to(target)]
    for number, path in enumerate(inside):
        _run("mkdir", f"/mnt/.kept-{number}")
        _run("mount", "--bind", str(path), f"/mnt/.kept-{number}")
    _run("mount", "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", str(target))
    for number, path in enumerate(inside):
        _run("mkdir", "-p", str(path))
        _run("mount", "--move", f"/mnt/.kept-{number}", str(path))
        _run("rmdir", f"/mnt/.kept-{number}")


def _enter(volumes: Sequence[str]) -> None:
    """Makes this process's own view of the file system."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    _run("mount", "--make-rprivate", "/")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    tmp = Path("/tmp")
    closed = {folder for path in _needed() if not path.is_relative_to(tmp) and (folder := _closed_to_others(path))}
    for folder in closed:
        _cover(folder, "755")
    kept = []
    for volume in volumes:
        folder, _, mode = volume.partition(":")
        target = f"/mnt/{Path(folder).resolve().name}"
        _run("mkdir", target)
        _run("mount", "--bind", str(Path(folder).resolve()), target)
        if mode != "ro":
            kept.append(target)
    # Last, because volumes may lie below it.
    _cover(tmp, "1777")
    _run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm")
    writable = {"/tmp", *kept}
    for target in _mounted():
        # What another mount has covered cannot be reached, and has no path any more.
        if target not in writable and not target.startswith(_STAYS_AS_IT_IS) and os.path.exists(target):
            _run("mount", "-o", "remount,bind,ro", target)


def main(arguments: Sequence[str]) -> None:
    """Takes the place of this process by the command."""
    parser = argparse.ArgumentParser(prog="as_in_a_pod")
    parser.add_argument("--volume", action="append", default=[], metavar="FOLDER[:ro]")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    _enter(given.volume)
    os.chdir(REPOSITORY)
    variables = environment(read(REPOSITORY / "infra" / "images" / "Dockerfile"))
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    privileges = ["--reuid", _USER, "--regid", _USER, "--clear-groups", "--no-new-privs"]
    privileges += ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    os.execvpe("setpriv", ["setpriv", *privileges, "--", *given.command], variables)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A memory cgroup of a test's own, in which the kernel really kills."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.trainer_module.launch.cluster_job import Place
from tests.trainer_module.launch.launched_job import wait_until

_MOUNT = Path("/sys/fs/cgroup")


class NoCgroupError(RuntimeError):
    """This machine lets nobody make a memory cgroup; the text says why."""


@contextmanager
def limited(limit_bytes: int) -> Iterator[Place]:
    """Makes a cgroup with a limit; processes started at the place are in it.

    Raises:
        NoCgroupError: it cannot.
    """
    is_version_1 = (_MOUNT / "memory").is_dir()
    folder = (_MOUNT / "memory" if is_version_1 else _MOUNT) / f"sangam-{os.getpid()}"
    limit = folder / ("memory.limit_in_bytes" if is_version_1 else "memory.max")
    try:
        folder.mkdir()
    except OSError as error:
        raise NoCgroupError(str(error)) from error
    try:
        if not limit.exists():
            raise NoCgroupError(f"{folder}: has no memory controller")
        try:
            limit.write_text(str(limit_bytes))
        except OSError as error:
            raise NoCgroupError(str(error)) from error
        yield Place(("sh", "-c", f'echo $$ >{shlex.quote(str(folder / "cgroup.procs"))} && exec "$@"', "sh"))
    finally:
        wait_until(lambda: not any(map(psutil.pid_exists, _members(folder))), 60, "the cgroup is empty")
        folder.rmdir()


def _members(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "cgroup.procs").read_text().split()]

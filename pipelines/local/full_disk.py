"""The error of a step that failed because a disk was full: which disk, and how much space the step needs."""

import errno
import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from sangam.components.record.run import Step
from sangam.pipelines.local.request import RunRequest
from sangam.schemas.quantities import shown_bytes

_SAID = re.compile(r"no space left on device|disk is full|disk quota exceeded", re.IGNORECASE)
_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_SAMPLE_S = 0.2
_NO_STEP = "run"
"""Name used before the first step."""
_FULL_BELOW_BYTES = 64 * 1024


class DiskWatch:
    """An observer that samples the free space of a root's disk during a step: after a failure, space is soon freed.

    Attributes:
        node: name of the step.
        free_at_start: bytes free when the step started.
        least_free: fewest bytes free since.
    """

    def __init__(self, root: Path):
        self._root = root
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.node = _NO_STEP
        self.free_at_start = self.least_free = _free(root)

    def step_started(self, name: str) -> None:
        """Starts sampling."""
        self.node, self.free_at_start = name, _free(self._root)
        self.least_free = self.free_at_start
        self._ended.clear()
        self._thread = threading.Thread(target=self._sample, name="disk", daemon=True)
        self._thread.start()

    def step_ended(self, step: Step) -> None:
        """Stops sampling."""
        del step
        self._ended.set()
        if self._thread:
            self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self.least_free = min(self.least_free, _free(self._root))


def full_disk(error: BaseException, request: RunRequest, steps: Mapping[str, Step], watch: DiskWatch) -> str | None:
    """Returns the error text of a failure; None if no disk was full."""
    unwritable = _path_of(error, request.root)
    if unwritable is None and watch.least_free > _FULL_BELOW_BYTES:
        return None
    path = unwritable or str(request.root if watch.node == _NO_STEP else request.layout.artifacts / watch.node)
    needed, on = _needed_bytes(request, steps, watch.node), _existing(Path(path))
    if on.stat().st_dev == request.root.stat().st_dev:
        # The step used all free space and had not finished.
        needed = max(needed, watch.free_at_start)
        free = f"{shown_bytes(watch.least_free)} free at {path}, {shown_bytes(watch.free_at_start)} when the step began"
        remedy = "free some space, or use a --root on a larger disk"
    else:
        free, remedy = f"{shown_bytes(_free(on))} free at {path}", "free some space there"
    return f"{watch.node}: the disk is full (got {free}); the step needs about {shown_bytes(needed)}: {remedy}"


def is_full(path: Path) -> bool:
    """Returns whether the disk of a path is full."""
    return _free(path) <= _FULL_BELOW_BYTES


def _path_of(error: BaseException, root: Path) -> str | None:
    """Returns the path that could not be written; "" if the error names none; None if no disk was full."""
    for each in _chain(error):
        text = str(each)
        if isinstance(each, OSError) and each.errno in _ERRNOS:
            # A copy has two paths; the second is the target.
            return str(each.filename2 or each.filename or "")
        lines = [line for line in text.splitlines() if _SAID.search(line)]
        if lines:
            named = re.findall(rf"{re.escape(str(root))}/[^\s:;,'\"\]\)]+", " ".join(lines))
            return named[0] if named else ""
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _needed_bytes(request: RunRequest, steps: Mapping[str, Step], node: str) -> int:
    """Estimates the bytes that a step writes: those of an earlier run, or else of its largest possible input."""
    executions: dict[str, int] = {}
    for output in (request.layout.artifacts / node).glob("[!.]*/*"):
        executions[output.name] = executions.get(output.name, 0) + _size(output)
    if executions:
        return max(executions.values())
    made = [_size(Path(artifact.uri)) for step in steps.values() for artifact in step.outputs.values()]
    return max(made, default=0) or _size(Path(request.data_root))


def _size(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(directory, name)).st_size
            except OSError:
                continue
    return total


def _existing(path: Path) -> Path:
    return next((parent for parent in (path, *path.parents) if parent.exists()), Path("/"))


def _free(path: Path) -> int:
    return shutil.disk_usage(path).free

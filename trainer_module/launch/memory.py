"""How much memory is left for a training job."""

from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(cgroup: Path = _CGROUP) -> int:
    """Returns the memory still available to processes within this container's limits.

    Args:
        cgroup: folder of the limits (cgroup version 2).
    """
    return min([psutil.virtual_memory().available, *_left_in(cgroup)])


def _left_in(cgroup: Path) -> list[int]:
    """Returns the memory left in a cgroup; None where it has no readable limit."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        statistics = (cgroup / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        return []
    if limit == "max":
        return []
    # The page cache of files counts as used, but makes room when it is needed.
    reclaimable = sum(int(line.split()[1]) for line in statistics if line.startswith("inactive_file "))
    return [max(0, int(limit) - used + reclaimable)]

"""The memory available to a training job."""

from collections.abc import Sequence

import psutil

from sangam.schemas.host.cgroup import Cgroup, own_cgroups


def available_bytes(cgroups: Sequence[Cgroup] | None = None) -> int:
    """Returns the memory still available to processes within this container's limits.

    Args:
        cgroups: cgroups with limits; None: this process's.
    """
    left = [each.left_bytes() for each in (own_cgroups() if cgroups is None else cgroups)]
    return min([psutil.virtual_memory().available, *(each for each in left if each is not None)])

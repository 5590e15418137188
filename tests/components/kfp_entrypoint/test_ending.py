"""How the end of a step's process is told."""

from sangam.components.kfp_entrypoint.ending import ending_of
from sangam.schemas.host.cgroup import OutOfMemory
from tests.errors import tells


def test_a_process_that_the_kernel_killed_at_its_limit_of_memory_is_told_with_the_limit() -> None:
    ending = ending_of(-9, None, "transform", OutOfMemory(2_000_000_000))
    assert ending.code == 137
    assert tells(ending.reason, "transform", "(got 2.00 GB); raise cluster.steps.transform.memory")

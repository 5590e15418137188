"""Devices of a rank: the host, and an accelerator if the process has one.

The host finds rows and exchanges messages. The dense layers, and the rows of tables with `place: device`, lie on the
accelerator. Copies between the two are TensorFlow's, wherever an operation reads the other device's result.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from sangam.schemas.derived.groups import Group
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed
from sangam.schemas.spec import RankerSpec

HOST = "/CPU:0"
LOGICAL_VARIABLE = "SANGAM_LOGICAL_ACCELERATOR"
"""Environment variable: `1` makes a second logical CPU the accelerator, which proves placement without a GPU."""


@dataclass(frozen=True)
class Placement:
    """The devices of this process.

    Attributes:
        accelerator: device of the dense layers; None: the host has everything, and graphs name no device.
    """

    accelerator: str | None = None

    def host(self) -> AbstractContextManager[Any]:
        """Places operations on the host."""
        return nullcontext() if self.accelerator is None else tf.device(HOST)

    def dense(self) -> AbstractContextManager[Any]:
        """Places operations where the dense layers are."""
        return nullcontext() if self.accelerator is None else tf.device(self.accelerator)

    def are_on_device(self, group: Group) -> bool:
        """Returns whether a group's rows are in the accelerator's memory."""
        return self.accelerator is not None and group.place == "device"

    def rows(self, group: Group) -> AbstractContextManager[Any]:
        """Places operations where a group's rows are."""
        return self.dense() if self.are_on_device(group) else self.host()


HOST_ALONE = Placement()


def take(spec: RankerSpec, *, local_rank: int) -> Placement:
    """Chooses this process's devices, before TensorFlow uses any.

    Args:
        spec: the ranker.
        local_rank: this rank's number on its machine; each rank takes a GPU of its own.

    Raises:
        UserError: the spec requires a GPU and the process has none, or there are more ranks than GPUs.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if spec.training.dense_place == "host":
        tf.config.set_visible_devices([], "GPU")
        return HOST_ALONE
    if gpus:
        return Placement(_own(gpus, local_rank))
    if os.environ.get(LOGICAL_VARIABLE) == "1":
        return Placement(logical_accelerator())
    if spec.training.dense_place == "device":
        raise UserError(
            "training.dense_place: device: TensorFlow finds no GPU in this process; `sangam doctor` says what is "
            "missing, or declare auto"
        )
    return HOST_ALONE


def _own(gpus: Sequence[Any], local_rank: int) -> str:
    if local_rank >= len(gpus):
        raise UserError(
            f"cluster.ranks: one process per GPU (got rank {local_rank + 1} of a machine with {len(gpus)}); use at "
            f"most {len(gpus)} ranks per machine, or declare training.dense_place: host"
        )
    tf.config.set_visible_devices(gpus[local_rank], "GPU")
    # Without it TensorFlow takes all of the memory at once, and a server or a second job on the card finds none.
    tf.config.experimental.set_memory_growth(gpus[local_rank], True)
    return "/GPU:0"


def beside() -> Placement:
    """Returns the first GPU as the accelerator, without one a logical CPU: for proofs and benchmarks."""
    return Placement("/GPU:0" if tf.config.list_physical_devices("GPU") else logical_accelerator())


def logical_accelerator() -> str:
    """Splits the host into two logical CPUs; returns the second one."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(2)])
    return "/CPU:1"


def full_device(error: tf.errors.OpError, spec: RankerSpec) -> str | None:
    """Returns what is wrong if a GPU's memory was full; None for other errors of TensorFlow."""
    if not (isinstance(error, tf.errors.ResourceExhaustedError) and "GPU" in error.message):
        return None
    on_device = [name for name, table in spec.tables.items() if table.place == "device"]
    rows = f"place: host for {listed(on_device)}, or a capacity; " if on_device else ""
    return (
        f"training: the GPU's memory is full (got: {error.message.splitlines()[0]}); declare {rows}a smaller "
        f"batch_size_per_rank (now {spec.training.batch_size_per_rank}), or more ranks. "
        "`sangam plan --gpu-memory` says what fits"
    )


def notes(spec: RankerSpec, placement: Placement) -> list[str]:
    """Returns what differs from the declared placement, for the report."""
    declared = [name for name, table in spec.tables.items() if table.place == "device"]
    if placement.accelerator is not None or not declared:
        return []
    return [
        f"tables.{name}.place: device: there is no GPU here, its rows are in the host's memory" for name in declared
    ]

"""The machine of a measurement, and its priority there."""

import os
from dataclasses import dataclass
from pathlib import Path

_UNITS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        processor: model name.
        cores: number of cores that this process may use.
        units: those of the units for products that its processor has.
    """

    processor: str
    cores: int
    units: str

    @property
    def line(self) -> str:
        """Description in a line."""
        return f"{self.cores} cores of {self.processor}, with {self.units or 'no unit for products'}"


def machine_of(cpuinfo: str, cores: int) -> Machine:
    """Returns the machine that `/proc/cpuinfo` describes."""
    fields = dict(line.split(":", 1) for line in cpuinfo.splitlines() if ":" in line)
    named = {name.strip(): value.strip() for name, value in fields.items()}
    flags = named.get("flags", "").split()
    return Machine(named.get("model name", "unknown"), cores, ", ".join(unit for unit in _UNITS if unit in flags))


def this_machine() -> Machine:
    """Returns this machine."""
    return machine_of(Path("/proc/cpuinfo").read_text(), len(os.sched_getaffinity(0)))


def at_highest_priority() -> str:
    """Gives this process, and those that it starts, the highest priority if it may; returns which they have."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        return f"priority {os.getpriority(os.PRIO_PROCESS, 0)}: the highest, -20, is not permitted to this user"
    return "priority -20, the highest"

"""Records a step with its time, processor time and peak memory, on one machine and on Kubeflow alike."""

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sangam.components.processes.memory import PeakMemory, cpu_seconds
from sangam.components.record.run import Artifact, Observer, Step

_LOG = logging.getLogger(__name__)


@dataclass
class Ended:
    """The end of a step, as far as its work has told it.

    Attributes:
        state: `failed` until the work says how it has ended.
        outputs: artifacts by output key.
    """

    state: str = "failed"
    outputs: dict[str, Artifact] = field(default_factory=dict)


@contextlib.contextmanager
def measured(name: str, observers: Sequence[Observer]) -> Iterator[Ended]:
    """Tells observers of a step's start, and of its end with what this process and its children took meanwhile.

    Yields the end for the work to fill in; a KeyboardInterrupt is a stop.
    """
    for observer in observers:
        observer.step_started(name)
    started, cpu_started, ended = time.monotonic(), cpu_seconds(), Ended()
    memory = PeakMemory(os.getpid())
    try:
        with memory:
            yield ended
    except KeyboardInterrupt:
        ended.state = "stopped"
        raise
    finally:
        seconds, cpu = time.monotonic() - started, cpu_seconds() - cpu_started
        step = Step(name, ended.state, seconds, memory.peak_bytes, ended.outputs, cpu)
        _LOG.info("event=step_ended node=%s state=%s seconds=%.1f", name, step.state, seconds)
        for observer in observers:
            observer.step_ended(step)

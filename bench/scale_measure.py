"""Measures what `bench.scale_model` computes with, and what it is checked against.

    python -m bench.scale_measure runs/scale.json one two apart meetings reading calls four wires

Each part is added to the file. One core a rank, in fresh processes; a quiet machine, 2 to 3 minutes a part.
"""

import argparse
import dataclasses
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import processes
from bench.contest import AS_LAUNCHED, compete, compete_apart, measure
from bench.processes import Process
from bench.stages import milliseconds_by_stage
from bench.wire import run_on, wire
from trainer_module.launch.rendezvous import Rendezvous

ROWS, WEIGHTS = 36_000, 500_000
"""Of the workload: unique keys of a batch, dense weights."""
WIRES = ((0.0, 0.0), (1.0, 100.0), (1.0, 1000.0), (1.0, 5000.0))
"""Gbit/s and round trip in microseconds; 0: as fast as packets can be passed on here."""
CALIBRATED_RTT_US = 2000.0
"""Of a network that is none of those that predictions are checked on."""
_CONTESTANTS = {"horovod": "sangam_horovod", "shared_memory": "sangam"}


def one(batches: int) -> Any:
    """Returns steps and stages of one rank."""
    return _ranks("horovod", 1, batches)


def apart(batches: int) -> Any:
    """Returns the steps of independent ranks, one on each core, at the same time."""
    trainings = len(processes.cores())
    return [dataclasses.asdict(each) for each in compete_apart("sangam", trainings=trainings, batches=batches)]


def meetings(batches: int) -> Any:
    """Returns what collectives take on this machine, and with a delay between ranks."""
    del batches
    found = {transport: _meetings(transport) for transport in _CONTESTANTS}
    for name, rtt_us in (("horovod, wire", 0.0), (f"horovod, {CALIBRATED_RTT_US:.0f} us", CALIBRATED_RTT_US)):
        with wire(2, gbit_s=0.0, rtt_us=rtt_us) as names:
            found[name] = _on(names, "bench.meetings", "horovod", ROWS, WEIGHTS)
    return found


def reading(batches: int) -> Any:
    """Returns what a batch takes an input worker."""
    del batches
    return measure("bench.reading")


def calls(batches: int) -> Any:
    """Returns processor milliseconds of a pull and a push, of a rank and of a parameter server, by keys."""
    del batches
    return measure("bench.server_calls")


def two(batches: int) -> Any:
    """Returns steps of two ranks that train together."""
    return {transport: _ranks(transport, 2, batches) for transport in _CONTESTANTS}


def four(batches: int) -> Any:
    """Returns steps of four ranks that train together."""
    return {transport: _ranks(transport, 4, batches) for transport in _CONTESTANTS}


def wires(batches: int) -> Any:
    """Returns steps of two ranks in namespaces, by network."""
    found = {}
    for gbit_s, rtt_us in WIRES:
        with wire(2, gbit_s=gbit_s, rtt_us=rtt_us) as names:
            found[f"{gbit_s:g} Gbit/s, {rtt_us:g} us"] = _on(names, "bench.rank", "sangam_horovod", batches, then=[""])
    return found


PARTS: dict[str, Callable[[int], Any]] = {
    "one": one,
    "apart": apart,
    "meetings": meetings,
    "reading": reading,
    "calls": calls,
    "two": two,
    "four": four,
    "wires": wires,
}
COSTS = ("one", "two", "apart", "meetings", "reading", "calls")
"""The parts that costs come from; the others are what predictions are checked against."""


def _ranks(transport: str, ranks: int, batches: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        trace = Path(folder) / "trace" if ranks < 4 else None
        result = compete(_CONTESTANTS[transport], ranks=ranks, batches=batches, trace=trace)
        stages = milliseconds_by_stage(trace) if trace else {}
    return {"step_s": result.step_s, "cpu_s": result.cpu_s, "stages_ms": stages}


def _meetings(transport: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        output = Path(folder) / "result.json"
        command = ["bench.meetings", transport, str(ROWS), str(WEIGHTS), str(output)]
        with Rendezvous(2) as rendezvous:
            ranks = [Process(command, {**AS_LAUNCHED, **rendezvous.environment(rank)}) for rank in range(2)]
            processes.run(ranks, Path(folder))
        return json.loads(output.read_text())


def _on(names: list[str], *command: object, then: list[str] | None = None) -> Any:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        output = Path(folder) / "result.json"
        run_on(names, [*map(str, command), str(output), *(then or [])], logs=Path(folder), environment_=AS_LAUNCHED)
        return json.loads(output.read_text())


def add(file: Path, part: str, found: Any) -> None:
    """Adds what was measured to a file; repeats of a part stand beside each other."""
    document = json.loads(file.read_text()) if file.exists() else {}
    document.setdefault(part, []).append(found)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Measures parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--batches", type=int, default=12, help="of each rank, passed over twice")
    arguments = parser.parse_args()
    for part in arguments.parts:
        found = PARTS[part](arguments.batches)
        add(arguments.file, part, found)
        steps = statistics.median(found["step_s"]) if isinstance(found, dict) and "step_s" in found else found
        print(f"{part}: {steps}", flush=True)


if __name__ == "__main__":
    main()

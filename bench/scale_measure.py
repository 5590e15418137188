"""Measures the costs of `bench.scale_model`, and the steps that check its predictions.

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

from bench import processes, results
from bench.contest import AS_LAUNCHED, compete, measure
from bench.scale_costs import CALIBRATED_RTT_US, ROWS, WEIGHTS
from bench.stages import milliseconds_by_stage
from bench.wire import run_on, wire

WIRES = ((0.0, 0.0), (1.0, 100.0), (1.0, 1000.0), (1.0, 5000.0))
"""Gbit/s and round trip in microseconds; 0: as fast as packets can be passed on here."""
_CONTESTANTS = {"horovod": "sangam_horovod", "shared_memory": "sangam"}


def _apart(batches: int) -> Any:
    trainings = len(processes.cores())
    return [dataclasses.asdict(each) for each in compete("sangam", trainings=trainings, batches=batches)]


def _meetings(_: int) -> Any:
    found = {transport: measure("bench.meetings", transport, ROWS, WEIGHTS, ranks=2) for transport in _CONTESTANTS}
    for name, rtt_us in (("horovod, wire", 0.0), (f"horovod, {CALIBRATED_RTT_US:.0f} us", CALIBRATED_RTT_US)):
        with wire(2, gbit_s=0.0, rtt_us=rtt_us) as names:
            found[name] = _on(names, "bench.meetings", "horovod", ROWS, WEIGHTS)
    return found


def _together(ranks: int) -> Callable[[int], Any]:
    return lambda batches: {transport: _ranks(transport, ranks, batches) for transport in _CONTESTANTS}


def _wires(batches: int) -> Any:
    found = {}
    for gbit_s, rtt_us in WIRES:
        with wire(2, gbit_s=gbit_s, rtt_us=rtt_us) as names:
            found[f"{gbit_s:g} Gbit/s, {rtt_us:g} us"] = _on(names, "bench.rank", "sangam_horovod", batches, then=[""])
    return found


PARTS: dict[str, Callable[[int], Any]] = {
    "one": lambda batches: _ranks("horovod", 1, batches),
    "two": _together(2),
    "apart": _apart,
    "meetings": _meetings,
    "reading": lambda _: measure("bench.reading"),
    "calls": lambda _: measure("bench.server_calls"),
    "four": _together(4),
    "wires": _wires,
}
"""By name, from the batches of a rank: steps and stages of one rank and of two, of independent ranks at the same time;
collectives alone, here and with a delay; a batch of an input worker; calls of a parameter server; then the measurements
that predictions are checked against: steps of four ranks, and of two in namespaces by network."""


def _ranks(transport: str, ranks: int, batches: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        trace = Path(folder) / "trace" if ranks < 4 else None
        (result,) = compete(_CONTESTANTS[transport], ranks=ranks, batches=batches, trace=trace)
        stages = milliseconds_by_stage(trace) if trace else {}
    return {"step_s": result.step_s, "cpu_s": result.cpu_s, "stages_ms": stages}


def _on(names: list[str], *command: object, then: list[str] | None = None) -> Any:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        output = Path(folder) / "result.json"
        run_on(names, [*map(str, command), str(output), *(then or [])], logs=Path(folder), environment_=AS_LAUNCHED)
        return json.loads(output.read_text())


def main() -> None:
    """Measures parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--batches", type=int, default=12, help="of each rank, passed over twice")
    arguments = parser.parse_args()
    for part in arguments.parts:
        found = PARTS[part](arguments.batches)
        document = json.loads(arguments.file.read_text()) if arguments.file.exists() else {}
        document.setdefault(part, []).append(found)
        results.write(arguments.file, document)
        steps = statistics.median(found["step_s"]) if isinstance(found, dict) and "step_s" in found else found
        print(f"{part}: {steps}", flush=True)


if __name__ == "__main__":
    main()

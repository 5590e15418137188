"""Steps and collectives of two ranks in network namespaces: `python -m bench.between_hosts PART... [--output FILE]`.

    python -m bench.between_hosts steps      # over Horovod and over TCP, by network: docs/scale.md
    python -m bench.between_hosts costs      # what bench/scale_costs.json has of a rank and of transports

Needs root, `ip` and a C compiler. One core a rank, in fresh processes; a quiet machine, 2 to 4 minutes a part.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench import results
from bench.contest import AS_LAUNCHED, compete, measure
from bench.processes import cores
from bench.wire import run_on, wire

ROWS, WEIGHTS = 36_000, 500_000
"""Of the workload: unique keys of a batch, dense weights."""
NETWORKS = ((0.0, 0.0), (1.0, 1000.0), (1.0, 5000.0))
"""Gbit/s and round trip in microseconds; 0: as fast as packets can be passed on here."""
CALIBRATED_RTT_US = 2000.0
"""Of a network that is none of those that predictions are checked on."""
TRANSPORTS = ("horovod", "tcp")


def steps(batches: int) -> dict[str, Any]:
    """Returns seconds of each step of two ranks, and their losses, by network and transport."""
    found = {}
    for gbit_s, rtt_us in NETWORKS:
        with wire(2, gbit_s=gbit_s, rtt_us=rtt_us) as names:
            for transport in TRANSPORTS:
                measured = _on(names, "bench.rank", f"sangam_{transport}", batches)
                found[f"{gbit_s:g} Gbit/s, {rtt_us / 1e3:g} ms, {transport}"] = measured
    return found


def costs(batches: int) -> dict[str, Any]:
    """Returns steps of one rank, of independent ranks on all cores, of two that train together; and collectives."""
    alone, apart = compete("sangam", batches=batches), compete("sangam", trainings=len(cores()), batches=batches)
    together = {name: compete(name, ranks=2, batches=batches) for name in ("sangam", "sangam_tcp", "sangam_horovod")}
    found: dict[str, Any] = {"one": [each.step_s for each in alone], "apart": [each.step_s for each in apart]}
    found |= {f"two, {name}": [each.step_s for each in of_name] for name, of_name in together.items()}
    for transport in (*TRANSPORTS, "shared_memory"):
        found[transport] = measure("bench.meetings", transport, ROWS, WEIGHTS, ranks=2)
    for rtt_us in (0.0, CALIBRATED_RTT_US):
        with wire(2, gbit_s=0.0, rtt_us=rtt_us) as names:
            for transport in TRANSPORTS:
                found[f"{transport}, {rtt_us:g} us"] = _on(names, "bench.meetings", transport, ROWS, WEIGHTS)
    return found


def _on(names: list[str], *command: object) -> Any:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        output = Path(folder) / "result.json"
        run_on(names, [*map(str, command), str(output)], Path(folder), AS_LAUNCHED)
        return json.loads(output.read_text())


def main() -> None:
    """Measures parts, and prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("steps", "costs"))
    parser.add_argument("--batches", type=int, default=12, help="of each rank, passed over twice")
    parser.add_argument("--output", type=Path, help="file that every measurement is added to, as JSON")
    arguments = parser.parse_args()
    for part in arguments.parts:
        found = {"steps": steps, "costs": costs}[part](arguments.batches)
        if arguments.output:
            with arguments.output.open("a") as file:
                file.write(json.dumps({part: found}) + "\n")
        print(
            results.table([part, "measured"], [[name, _told(measured)] for name, measured in found.items()]), flush=True
        )


def _told(measured: Any) -> str:
    """Returns a median with the least and the most of each training; or every part of collectives, in milliseconds."""
    if isinstance(measured, dict) and "step_s" not in measured:
        return ", ".join(f"{name} {value * 1e3:.2f}" for name, value in measured.items())
    trainings = [measured["step_s"]] if isinstance(measured, dict) else measured
    told = [f"{statistics.median(s) * 1e3:.1f} ({min(s) * 1e3:.1f} to {max(s) * 1e3:.1f}) ms" for s in trainings]
    return "; ".join(told) + (f", last loss {measured['losses'][-1]!r}" if isinstance(measured, dict) else "")


if __name__ == "__main__":
    main()

"""Steps and collectives of two ranks in network namespaces, over Horovod and over TCP.

    python -m bench.between_hosts steps --output FILE    # by network, for docs/scale.md
    python -m bench.between_hosts meetings --output FILE # collectives alone
    python -m bench.between_hosts transports --output FILE # what bench/scale_costs.json has of them

Needs root, `ip` and a C compiler. One core a rank, in fresh processes; a quiet machine, 2 to 4 minutes a part.
"""

import argparse
import dataclasses
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import results
from bench.contest import AS_LAUNCHED, measure
from bench.dimensions import DIM
from bench.scale_costs import FLOAT_BYTES, Transport
from bench.wire import run_on, wire

ROWS, WEIGHTS = 36_000, 500_000
"""Of the workload: unique keys of a batch, dense weights."""
NETWORKS = ((0.0, 0.0), (1.0, 1000.0), (1.0, 5000.0))
"""Gbit/s and round trip in microseconds; 0: as fast as packets can be passed on here."""
CALIBRATED_RTT_US = 2000.0
"""Of a network that is none of those that predictions are checked on."""
TRANSPORTS = ("tcp", "horovod")


def steps(batches: int) -> dict[str, Any]:
    """Returns seconds of each step of two ranks, and their losses, by network and transport."""
    found = {}
    for gbit_s, rtt_us in NETWORKS:
        with wire(2, gbit_s=gbit_s, rtt_us=rtt_us) as names:
            for transport in TRANSPORTS:
                measured = _on(names, "bench.rank", f"sangam_{transport}", batches)
                found[f"{gbit_s:g} Gbit/s, {rtt_us / 1e3:g} ms, {transport}"] = measured
    return found


def meetings(batches: int) -> dict[str, Any]:
    """Returns seconds of collectives by transport: on this machine, and between namespaces with and without a delay."""
    del batches
    found = {transport: measure("bench.meetings", transport, ROWS, WEIGHTS, ranks=2) for transport in TRANSPORTS}
    for rtt_us in (0.0, CALIBRATED_RTT_US):
        with wire(2, gbit_s=0.0, rtt_us=rtt_us) as names:
            for transport in TRANSPORTS:
                found[f"{transport}, {rtt_us:g} us"] = _on(names, "bench.meetings", transport, ROWS, WEIGHTS)
    return found


def transports(repeats: Sequence[Mapping[str, Any]]) -> dict[str, Transport]:
    """Returns the costs of transports on this machine, and between namespaces, whose program costs time too.

    Args:
        repeats: of `meetings`; the least counts: whatever else the machine does makes a collective longer.
    """
    rows_mb, dense_mb = ROWS * DIM * FLOAT_BYTES / 2e6, WEIGHTS * FLOAT_BYTES / 1e6  # Half of the rows stay.
    found = {}
    for transport in TRANSPORTS:

        def ms(name: str, part: str) -> float:
            return 1e3 * min(float(repeat[name][part]) for repeat in repeats)

        here, there = f"{transport}, 0 us", f"{transport}, {CALIBRATED_RTT_US:g} us"
        hops = {
            f"{part}_hops": max(ms(there, f"{part}_few_s") - ms(here, f"{part}_few_s"), 0.0) / (CALIBRATED_RTT_US / 2e3)
            for part in ("rows", "gradients")
        }
        for name, measured in ((transport, transport), (f"{transport} between namespaces", here)):
            rows_ms = ms(measured, "rows_all_s") - ms(measured, "rows_few_s")
            both_ms = ms(measured, "gradients_all_s") - ms(measured, "gradients_few_s")
            found[name] = Transport(
                rows_ms=ms(measured, "rows_few_s"),
                gradients_ms=ms(measured, "gradients_few_s"),
                rows_ms_per_mb=max(rows_ms, 0.0) / rows_mb,
                dense_ms_per_mb=max(both_ms - rows_ms, 0.0) / dense_mb,
                idle_cpu=ms(measured, "idle_cpu") / 1e3,
                negotiates=transport == "horovod",
                **hops,
            )
    return found


def _on(names: list[str], *command: object) -> Any:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        output = Path(folder) / "result.json"
        run_on(names, [*map(str, command), str(output)], Path(folder), AS_LAUNCHED)
        return json.loads(output.read_text())


def main() -> None:
    """Measures parts, and prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("steps", "meetings", "transports"))
    parser.add_argument("--batches", type=int, default=12, help="of each rank, passed over twice")
    parser.add_argument("--output", type=Path, required=True, help="file of all measurements, one a line, as JSON")
    arguments = parser.parse_args()
    if arguments.part == "transports":
        read = [json.loads(line) for line in arguments.output.read_text().splitlines()]
        made = transports([each["meetings"] for each in read if "meetings" in each])
        print(json.dumps({name: dataclasses.asdict(each) for name, each in made.items()}, indent=1))
        return
    found = {"steps": steps, "meetings": meetings}[arguments.part](arguments.batches)
    with arguments.output.open("a") as file:
        file.write(json.dumps({arguments.part: found}) + "\n")
    rows = [[name, _told(measured)] for name, measured in found.items()]
    print(results.table([arguments.part, "measured"], rows), flush=True)


def _told(measured: Mapping[str, Any]) -> str:
    """Returns a median with the least and the most, and the last loss; or every part of collectives."""
    if "step_s" not in measured:
        return ", ".join(f"{name} {value * 1e3:.2f}" for name, value in measured.items())
    ms = [second * 1e3 for second in measured["step_s"]]
    return f"{statistics.median(ms):.1f} ({min(ms):.1f} to {max(ms):.1f}), loss {measured['losses'][-1]!r}"


if __name__ == "__main__":
    main()

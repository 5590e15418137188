"""Sangam beside its peers and beside the limit of the machine, as ratios within one run: `make bench-peers`.

    python -m bench.peers --repeats 3 --seconds 220 --output runs/peers.json

Every turn, one contestant in one way, is a run of fresh processes, and its result is kept: the same command resumes an
interrupted run. Once all turns are taken it prints tables and goals. All run at the highest priority, which only root
may take, so that other work does not decide. Needs a quiet machine with two cores; without PyTorch
(`bench/peers/setup.sh`) its contestants are left out.
"""

import argparse
import dataclasses
import time
from pathlib import Path

from bench import report
from bench.machine import at_highest_priority, this_machine
from bench.peers import tables
from bench.peers.plan import NAMES, WAYS, Memory, take, turns
from bench.torch_processes import PYTHON


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS, metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batches", type=int, default=16, help="of each rank, passed over twice")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no turn begins after so many")
    parser.add_argument("--output", type=Path, default=Path("runs/peers.json"), help="all numbers; what is there stays")
    arguments = parser.parse_args()
    with_torch, until = PYTHON.exists(), time.monotonic() + arguments.seconds
    if not with_torch:
        print("peers: no PyTorch here: its contestants are left out (bench/peers/setup.sh)", flush=True)
    machine = this_machine()
    print(f"peers: {machine.line}; {at_highest_priority()}", flush=True)
    memory = Memory(arguments.output, machine)
    wanted = turns(arguments.repeats, arguments.only, arguments.ways, with_torch=with_torch)
    left = [turn for turn in wanted if not memory.has(turn)]
    for number, turn in enumerate(left):
        if time.monotonic() > until:
            print(f"peers: {len(left) - number} turns are left: the same command resumes", flush=True)
            return
        started = time.monotonic()
        memory.add(turn, take(turn, arguments.batches, with_torch=with_torch))
        print(f"{turn.label}: {tables.line(memory, turn)} ({time.monotonic() - started:.0f} s)", flush=True)
    goals = tables.goals(memory)
    memory.write({"goals": [dataclasses.asdict(goal) | {"is_met": goal.is_met} for goal in goals]})
    print(
        f"\n{machine.line}\n\n{tables.speed_table(memory)}\n\n{tables.limit_table(memory)}\n\n{report.goal_table(goals)}"
    )
    print(f"\nall numbers are in {arguments.output}")


if __name__ == "__main__":
    main()

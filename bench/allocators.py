"""What an allocator costs a rank, in time and in memory: `python -m bench.allocators`.

Needs a quiet machine with two cores. Allocators take turns. jemalloc and tcmalloc take part where Debian's packages
libjemalloc2 and libtcmalloc-minimal4 are installed.

As `python -m bench.allocators ROWS OUTPUT`: the memory of one process, which trains, grows a table to ROWS rows, and
takes three copies of it as checkpoints do.
"""

import argparse
import gc
import json
import re
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.contest import Result, compete, measure
from bench.report import table
from trainer_module.launch.children import ALLOCATOR

_SYSTEM = {"TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1"}
_LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def allocators() -> dict[str, dict[str, str]]:
    """Returns the environments to compare, by name."""
    found = {
        "TensorFlow's own": {},
        "glibc, its defaults": _SYSTEM,
        "glibc, as launched": ALLOCATOR,
        "glibc, mappings from 1 GiB": ALLOCATOR | {"MALLOC_MMAP_THRESHOLD_": str(1 << 30)},
    }
    preloaded = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
    for name, file in preloaded.items():
        if (_LIBRARIES / file).exists():
            found[name] = {**_SYSTEM, "LD_PRELOAD": str(_LIBRARIES / file)}
        else:
            print(f"{name}: {file} is not installed")
    return found


def main() -> None:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="of the comparison")
    parser.add_argument("--batches", type=int, default=16, help="of each rank's pool")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the table that is grown")
    arguments = parser.parse_args()
    environments = {name: {**_ONE_THREAD, **own} for name, own in allocators().items()}
    runs: dict[str, dict[int, list[Result]]] = {name: {1: [], 2: []} for name in environments}
    for _ in range(arguments.repeats):
        for ranks in (1, 2):
            for name, environment in environments.items():
                found = compete("sangam", ranks=ranks, batches=arguments.batches, environment=environment)
                runs[name][ranks].append(found)
                print(f"{name}, ranks: {ranks}: {found.median_s * 1e3:.1f} ms a step", flush=True)
    held = {
        name: measure("bench.allocators", arguments.rows, environment=environment)
        for name, environment in environments.items()
    }
    print(f"\n{_time_table(runs)}\n\n{_memory_table(held)}")


def _time_table(runs: Mapping[str, Mapping[int, list[Result]]]) -> str:
    rows = []
    for name, by_ranks in runs.items():
        cells = [name]
        for results in by_ranks.values():
            step_s = [result.median_s for result in results]
            cpu_s = statistics.median(result.cpu_s for result in results)
            cells += [
                f"{statistics.median(step_s) * 1e3:.1f} ({min(step_s) * 1e3:.0f}–{max(step_s) * 1e3:.0f})",
                f"{cpu_s * 1e3:.1f}",
                f"{statistics.median(result.page_faults for result in results):,.0f}",
            ]
        rows.append(cells)
    header = [f"{what}, {ranks}" for ranks in ("1 rank", "2 ranks") for what in ("ms a step", "CPU", "page faults")]
    return table(["", *header], rows)


def _memory_table(held: Mapping[str, Mapping[str, float]]) -> str:
    rows = [[name, *(f"{bytes_ / 2**20:,.0f}" for bytes_ in of.values())] for name, of in held.items()]
    return table(["MiB", *next(iter(held.values()))], rows)


def measure_memory(num_rows: int) -> dict[str, int]:
    """Returns what this process holds after each stage; nothing is trimmed, as in a training."""
    from bench.ours import batches_of, train
    from bench.scale import all_keys, make_rows, on_one_core, only_store
    from bench.workload import BATCH_SIZE_PER_RANK, pool, ranker
    from trainer_module.loop.in_step import InStepTrainer
    from trainer_module.ranker import Ranker

    on_one_core()
    trainer = InStepTrainer(Ranker(ranker()), rank=0, ranks=1)
    batches = batches_of(pool(6 * BATCH_SIZE_PER_RANK, num_ids=num_rows, seed=0), BATCH_SIZE_PER_RANK)
    train(trainer, batches)
    held = {"6 steps": _resident_bytes("RssAnon")}
    make_rows(only_store(trainer), all_keys(num_rows))
    train(trainer, batches)
    held["table grown"] = _resident_bytes("RssAnon")
    for _ in range(3):
        snapshot = trainer.snapshot()
        train(trainer, batches[:2])
        del snapshot
    return held | {"three copies later": _resident_bytes("RssAnon"), "peak": _resident_bytes("VmHWM")}


def _resident_bytes(line: str) -> int:
    gc.collect()
    found = re.search(rf"{line}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].isdecimal():
        Path(sys.argv[2]).write_text(json.dumps(measure_memory(int(sys.argv[1]))))
    else:
        main()

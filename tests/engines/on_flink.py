"""`make itest-flink JAR=...`: the demo on a Flink cluster of this machine, with Beam's job server given.

It runs every step by `sangam run`, compares the results with those of this process, and stops a run, whose job must
be cancelled. It needs Java 17, and pip for Flink's libraries.
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.e2e.user_run import DATE, World, start, states, summary_of
from tests.engines import flink_cluster
from tests.engines.equal import differences
from tests.engines.servers import worker_pool
from tests.paths import SPECS

_RUN_S = 1800.0
_SMALL: dict[tuple[str | int, ...], Any] = {
    ("training", "epochs"): 1,
    ("data", "train_days"): 2,
    # Transform writes its examples on the engine too.
    ("input",): {"transform": "ahead"},
}


def main() -> int:
    """Returns the exit code: 1 where a result differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.engines.on_flink")
    parser.add_argument("jar", type=Path, help="Beam's job server for Flink")
    jar = parser.parse_args().jar.resolve()
    if not jar.is_file():
        parser.error(f"JAR: no such file (got {jar}); give beam-runners-flink-1.19-job-server-2.74.0.jar")
    folder = Path(tempfile.mkdtemp(prefix="sangam-flink-"))
    print(f"logs in {folder}", flush=True)
    with flink_cluster.flink_cluster(folder / "flink") as master, worker_pool(folder) as pool:
        beam = {"runner": "flink", "master": master, "worker_pool": pool.address, "jar": str(jar), "timeout_s": 900}
        world = World(folder, SPECS / "short_video.yaml")
        world.generate()
        spec = world.spec("flink", {("beam",): beam, **_SMALL})
        log = folder / "run.log"
        start(world.arguments(spec), log).wait(_RUN_S)
        print(log.read_text(), flush=True)
        summary = summary_of(log.read_text())
        for name, step in summary["steps"].items():
            print(f"{name:18} {step['state']:8} {step['seconds']:.0f} s")
        if set(states(summary).values()) != {"ran"}:
            return 1
        found = differences(world.root, spec, DATE, world.logs, folder / "again")
        wrong = {step: of_step for step, of_step in found.items() if of_step}
        print("different:", wrong or "nothing", flush=True)
        left = _left_after_a_stop(world, world.spec("stopped", {("beam",): beam, **_SMALL}), master)
        print("jobs left after a stop:", left or "none")
        return 1 if wrong or left else 0


def _left_after_a_stop(world: World, spec: Path, master: str) -> list[str]:
    """Returns the jobs that still run after a run was ended by SIGTERM in its first step."""
    before = set(flink_cluster.states(master))
    run = start(world.arguments(spec, root=world.directory / "stopped"), world.directory / "stopped.log")
    while not set(flink_cluster.states(master)) - before:
        assert run.poll() is None, (world.directory / "stopped.log").read_text()
        time.sleep(0.5)
    run.send_signal(signal.SIGTERM)
    run.wait(60)
    time.sleep(5)
    return [
        job for job, state in flink_cluster.states(master).items() if state not in ("FINISHED", "CANCELED", "FAILED")
    ]


if __name__ == "__main__":
    sys.exit(main())

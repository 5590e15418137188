"""Latency of requests with a log over that without: `python -m bench.request_log VERSION`.

Servers of one pushed version take turns under the same load of `sangam load`; those that are not measured are stopped
(SIGSTOP). One has no log, others log a share of their requests. Each has one core, its writing thread included; the
load has the other one. The ratio is that of the medians of the turns' p99.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from bench.serving import NAME, server
from sangam.components.load.generator import Load, run
from sangam.components.registry.seal import MANIFEST_FILE
from sangam.components.server.client import connect
from sangam.schemas.spec.serving import RequestLog

MOST_RATIO = 1.1
_ONCE = ("user_id", "language", "tab", "hour", "network_mbps", "recent_posts")
_SETTLE_S = 0.5
SERVER_CORE, LOAD_CORE = {0}, {1}


class Measured:
    """A server that logs a share of its requests, 0: none; stopped but in its turns."""

    def __init__(self, version: Path, share: float, scratch: Path, stack: ExitStack):
        """Starts it."""
        folder = scratch / str(share)
        self._version, self.share, self.p99_ms = version, share, list[float]()
        copy = shutil.copytree(version, folder / "versions" / version.name)
        if share:
            told = json.loads((copy / MANIFEST_FILE).read_text())
            told["request_log"] = RequestLog(share=share).model_dump(mode="json")
            (copy / MANIFEST_FILE).write_text(json.dumps(told))
        options = ("--log", str(folder / "requests")) if share else ()
        addresses, self._pid = stack.enter_context(server(folder / "versions", folder / "log", *options))
        stack.callback(os.kill, self._pid, signal.SIGCONT)
        self._address, self._rest = addresses["grpc"], addresses["rest"]
        with connect(self._address, NAME) as client:
            while not any("AVAILABLE" in state for state in client.status().values()):
                time.sleep(0.1)
        for thread in os.listdir(f"/proc/{self._pid}/task"):
            os.sched_setaffinity(int(thread), SERVER_CORE)
        self.turn(seed=0, rate=40.0, seconds=2.0)
        self.p99_ms.clear()
        self._before_s = self._cpu_s()

    def turn(self, *, seed: int, rate: float, seconds: float) -> None:
        """Answers a load."""
        os.kill(self._pid, signal.SIGCONT)
        time.sleep(_SETTLE_S)
        requests = self._version / "assets.extra" / "tf_serving_warmup_requests"
        given = Load(
            address=self._address,
            rate=rate,
            seconds=seconds,
            deadline_s=5.0,
            connections=8,
            candidates=200,
            once=_ONCE,
            requests=requests,
            name=NAME,
            seed=seed,
        )
        found = run(given)
        os.kill(self._pid, signal.SIGSTOP)
        if found.answered != found.sent or found.p99_ms is None:
            raise RuntimeError(f"not all were answered (got {found.codes}); give a lower --rate")
        self.p99_ms.append(round(found.p99_ms, 2))

    def spent_s(self) -> float:
        """Returns the processor time of all turns."""
        return round(self._cpu_s() - self._before_s, 2)

    def metric(self, name: str) -> float:
        """Returns the sum of a metric's values."""
        os.kill(self._pid, signal.SIGCONT)
        lines = httpx.get(f"http://{self._rest}/metrics", timeout=30).text.splitlines()
        os.kill(self._pid, signal.SIGSTOP)
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{"))

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Prints the times of all, and their ratios; fails above the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", type=Path)
    parser.add_argument("--share", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--rate", type=float, default=40.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    os.sched_setaffinity(0, SERVER_CORE | LOAD_CORE)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        servers = [Measured(given.version, share, Path(scratch), stack) for share in (0.0, *given.share)]
        os.sched_setaffinity(0, LOAD_CORE)
        for turn in range(given.turns):
            for each in servers[:: 1 if turn % 2 else -1]:
                each.turn(seed=turn + 1, rate=given.rate, seconds=given.seconds)
        without = statistics.median(servers[0].p99_ms)
        ratios = [statistics.median(each.p99_ms) / without for each in servers]
        for each, ratio in zip(servers, ratios, strict=True):
            line = {"share": each.share, "p99_ms": each.p99_ms, "ratio": round(ratio, 3), "cpu_s": each.spent_s()}
            print(json.dumps(line))
    return int(max(ratios) > MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())

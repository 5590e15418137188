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
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx

from bench.serving import NAME, server
from sangam.components.load.generator import Load, run
from sangam.components.registry.versions import MANIFEST_FILE, SHADOW
from sangam.components.server.client import connect
from sangam.schemas.spec.serving import InShadow, RequestLog

MOST_RATIO = 1.1
_ONCE = ("user_id", "language", "tab", "hour", "network_mbps", "recent_posts")
_SETTLE_S = 0.5
SERVER_CORE, LOAD_CORE = {0}, {1}


class Measured:
    """A server of one version, maybe with a log of requests and the same model in the shadow; stopped but in its turns.

    Attributes:
        p99_ms: of each turn.
        rest: host:port.
    """

    def __init__(
        self,
        version: Path,
        folder: Path,
        stack: ExitStack,
        *,
        log: RequestLog | None = None,
        shadow: InShadow | None = None,
    ):
        """Starts it in a new folder."""
        self._version, self.p99_ms = version, list[float]()
        _copy(version, folder / "versions", int(version.name), request_log=log)
        if shadow:
            _copy(version, folder / "versions" / SHADOW, int(version.name) + 1, request_log=log, shadow=shadow)
        options = ("--log", str(folder / "requests")) if log else ()
        addresses, self._pid = stack.enter_context(server(folder / "versions", folder / "log", *options))
        stack.callback(os.kill, self._pid, signal.SIGCONT)
        self._address, self.rest = addresses["grpc"], addresses["rest"]
        wanted = ["AVAILABLE", "START"] if shadow else ["AVAILABLE"]
        with connect(self._address, NAME) as client:
            while sorted(found := [state.split()[0] for state in client.status().values()]) != wanted:
                if "END" in found:
                    raise RuntimeError(f"a version is refused (got {client.status()})")
                time.sleep(0.1)
        for thread in os.listdir(f"/proc/{self._pid}/task"):
            os.sched_setaffinity(int(thread), SERVER_CORE)
        self.turn(seed=0, rate=40.0, seconds=2.0)
        self.p99_ms.clear()
        self._before_s = self._cpu_s()

    def resume(self) -> None:
        """Lets it run."""
        os.kill(self._pid, signal.SIGCONT)

    def turn(self, *, seed: int, rate: float, seconds: float) -> None:
        """Answers a load."""
        self.resume()
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
        self.resume()
        lines = httpx.get(f"http://{self.rest}/metrics", timeout=30).text.splitlines()
        os.kill(self._pid, signal.SIGSTOP)
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _copy(version: Path, versions: Path, number: int, **settings: RequestLog | InShadow | None) -> None:
    copy = shutil.copytree(version, versions / str(number))
    told = json.loads((copy / MANIFEST_FILE).read_text())
    for name, declared in settings.items():
        told[name] = declared.model_dump(mode="json") if declared else None
    (copy / MANIFEST_FILE).write_text(json.dumps(told))


def take_turns(servers: Sequence[Measured], *, rate: float, turns: int, seconds: float) -> list[float]:
    """Has each answer the same loads in turn; returns the median of its p99 over that of the first."""
    os.sched_setaffinity(0, LOAD_CORE)
    for turn in range(turns):
        for each in servers[:: 1 if turn % 2 else -1]:
            each.turn(seed=turn + 1, rate=rate, seconds=seconds)
    medians = [statistics.median(each.p99_ms) for each in servers]
    return [round(each / medians[0], 3) for each in medians]


def arguments(text: str | None) -> argparse.ArgumentParser:
    """Returns the options of a load, and the version."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("version", type=Path)
    parser.add_argument("--rate", type=float, default=40.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    return parser


def main() -> int:
    """Prints the times of all, and their ratios; fails above the goal."""
    parser = arguments(__doc__)
    parser.add_argument("--share", type=float, nargs="+", default=[0.1, 1.0])
    given = parser.parse_args()
    os.sched_setaffinity(0, SERVER_CORE | LOAD_CORE)
    shares = (0.0, *given.share)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        logs = [RequestLog(share=share) if share else None for share in shares]
        servers = [
            Measured(given.version, Path(scratch, str(share)), stack, log=log)
            for share, log in zip(shares, logs, strict=True)
        ]
        ratios = take_turns(servers, rate=given.rate, turns=given.turns, seconds=given.seconds)
        for share, each, ratio in zip(shares, servers, ratios, strict=True):
            print(json.dumps({"share": share, "p99_ms": each.p99_ms, "ratio": ratio, "cpu_s": each.spent_s()}))
    return int(max(ratios) > MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())

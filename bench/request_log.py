"""Latency of requests with a log over that without: `python -m bench.request_log VERSION`.

Two servers of one pushed version take turns under the same load of `sangam load`; the one that is not measured is
stopped (SIGSTOP). One logs a share of its requests. The ratio is that of the medians of the turns' p99.
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
from pathlib import Path

from bench.serving import NAME, server
from sangam.components.load.generator import Load, run
from sangam.components.registry.seal import MANIFEST_FILE
from sangam.components.server.client import connect
from sangam.schemas.spec.serving import RequestLog

_MOST_RATIO = 1.1
_ONCE = ("user_id", "language", "tab", "hour", "network_mbps", "recent_posts")
_SETTLE_S = 0.5


def main() -> int:
    """Prints the times of both, and their ratio; fails above the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=60.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        p99, counts = _measured(given, Path(scratch))
    ratio = statistics.median(p99["with"]) / statistics.median(p99["without"])
    found = {"p99_ms": p99, "ratio_of_medians": round(ratio, 3), "cpu": counts, "share": given.share}
    print(json.dumps(found, indent=2))
    return int(ratio > _MOST_RATIO)


def _measured(given: argparse.Namespace, scratch: Path) -> tuple[dict[str, list[float]], dict[str, float]]:
    versions = {name: scratch / name / "versions" for name in ("without", "with")}
    for name, folder in versions.items():
        shutil.copytree(given.version, folder / given.version.name)
        if name == "with":
            manifest = folder / given.version.name / MANIFEST_FILE
            told = json.loads(manifest.read_text())
            log = RequestLog(share=given.share)
            manifest.write_text(json.dumps(told | {"request_log": log.model_dump(mode="json")}))
    p99: dict[str, list[float]] = {"without": [], "with": []}
    before: dict[str, float] = {}
    with (
        server(versions["without"], scratch / "without" / "log") as plain,
        server(versions["with"], scratch / "with" / "log", "--log", str(scratch / "requests")) as logging,
    ):
        servers = {"without": plain, "with": logging}
        for addresses, _ in servers.values():
            _wait(addresses["grpc"])
            _load(given, addresses["grpc"], given.version, seed=0, seconds=2.0)
        for name, (_, pid) in servers.items():
            os.kill(pid, signal.SIGSTOP)
            before[name] = _cpu_s(pid)
        for turn in range(given.turns):
            for name in list(servers)[:: 1 if turn % 2 else -1]:
                addresses, pid = servers[name]
                os.kill(pid, signal.SIGCONT)
                time.sleep(_SETTLE_S)
                p99[name].append(_load(given, addresses["grpc"], given.version, seed=turn + 1, seconds=given.seconds))
                os.kill(pid, signal.SIGSTOP)
        spent = {name: round(_cpu_s(pid) - before[name], 2) for name, (_, pid) in servers.items()}
        for _, pid in servers.values():
            os.kill(pid, signal.SIGCONT)
    return p99, spent


def _load(given: argparse.Namespace, address: str, version: Path, *, seed: int, seconds: float) -> float:
    found = run(
        Load(
            address=address,
            rate=given.rate,
            seconds=seconds,
            deadline_s=5.0,
            connections=8,
            candidates=200,
            once=_ONCE,
            requests=version / "assets.extra" / "tf_serving_warmup_requests",
            name=NAME,
            seed=seed,
        )
    )
    if found.answered != found.sent or found.p99_ms is None:
        raise RuntimeError(f"not all were answered (got {found.codes}); give a lower --rate")
    return round(found.p99_ms, 2)


def _wait(address: str) -> None:
    with connect(address, NAME) as client:
        while not any("AVAILABLE" in state for state in client.status().values()):
            time.sleep(0.1)


def _cpu_s(pid: int) -> float:
    """Returns the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())

"""Whether a server's memory stays flat: `python -m bench.soak MODEL --minutes 20`.

A server of MODEL, an exported SavedModel with the signature `rank`, answers requests by both interfaces, gets a new
version every half minute, and gets broken bodies, halves of requests, and calls that are given up. Rates are low.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from bench import results
from bench.serving import NAME, Arrays, Bare, is_close, request_for, save_changed, server
from sangam.components.server.client import Client, connect
from sangam.schemas.contracts.export import RANK

_CANDIDATES, _NUM_REQUESTS, _TIMEOUT_S = 50, 8, 30
_PAUSE_S = {"grpc": 0.05, "rest": 0.1, "broken": 0.2, "sample": 5.0, "swap": 30.0}
"""Between two actions of a kind."""
_KEPT = 5
"""Versions in the folder: a busy server may still load one that is some swaps old."""
_WARM_SHARE, _MOST_GROWTH = 0.25, 0.05
"""Share of the time before the slope, in which the first swaps reserve memory; bound of the growth after it."""


def summary(samples: Sequence[tuple[float, int]]) -> dict[str, float]:
    """Returns memory and its slope after the first quarter, of (seconds, bytes).

    The slope is that of each minute's least: while a version is swapped two are in memory.
    """
    counted = [(at, size) for at, size in samples if at >= samples[-1][0] * _WARM_SHARE]
    by_minute = itertools.groupby(counted, lambda one: one[0] // 60)
    minutes = [(minute, min(size for _, size in of_minute)) for minute, of_minute in by_minute]
    slope = float(np.polyfit(*np.array(minutes, float).T, 1)[0]) if len(minutes) > 1 else 0.0
    least, most = (edge(size for _, size in counted) for edge in (min, max))
    return {
        "minutes": samples[-1][0] / 60,
        "least_mib": least / 2**20,
        "most_mib": most / 2**20,
        "slope_mib_per_hour": slope * 60 / 2**20,
        "growth": slope * (len(minutes) - 1) / least,
    }


class Soak:
    """All load on a server, each kind in a thread of its own.

    Attributes:
        samples: seconds since the start, and the server's resident bytes.
        counts: right answers by interface, broken requests, swaps.
        wrong: valid requests that failed, or whose scores are no version's.
    """

    def __init__(self, addresses: Mapping[str, str], pid: int, folder: Path, models: Sequence[Path], seconds: float):
        self._addresses, self._folder, self._models = addresses, folder, models
        self._process, self._start, self._seconds = psutil.Process(pid), time.monotonic(), seconds
        self.samples: list[tuple[float, int]] = []
        self.counts = dict.fromkeys(("grpc", "rest", "broken", "swap"), 0)
        self.wrong: list[str] = []
        bare = [Bare(model) for model in models]
        self._requests = [
            request_for(bare[0].inputs, context=set(), candidates=_CANDIDATES, seed=seed)
            for seed in range(_NUM_REQUESTS)
        ]
        self._expected = [[model(arrays) for model in bare] for arrays in self._requests]

    def run(self) -> None:
        """Loads the server until the time is over."""
        works = (self._ask_grpc, self._ask_rest, self._break, self._swap, self._sample)
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _turns(self, kind: str) -> Iterator[int]:
        end = self._start + self._seconds
        for number in itertools.count():
            if time.monotonic() >= end:
                return
            yield number
            time.sleep(max(0.0, min(_PAUSE_S[kind], end - time.monotonic())))

    def _ask_grpc(self) -> None:
        with connect(self._addresses["grpc"], NAME) as client:
            self._ask("grpc", lambda arrays: client.predict(RANK, arrays, _TIMEOUT_S))

    def _ask_rest(self) -> None:
        def ask(arrays: Arrays) -> Arrays:
            inputs = {
                name: (np.char.decode(values.astype("S")) if values.dtype.kind == "O" else values).tolist()
                for name, values in arrays.items()
            }
            answer = client.post(url, json={"signature_name": RANK, "inputs": inputs}).raise_for_status()
            return {name: np.array(values) for name, values in answer.json()["outputs"].items()}

        url = f"http://{self._addresses['rest']}/v1/models/{NAME}:predict"
        with httpx.Client(timeout=_TIMEOUT_S) as client:
            self._ask("rest", ask)

    def _ask(self, kind: str, ask: Callable[[Arrays], Arrays]) -> None:
        for number in self._turns(kind):
            try:
                answer = ask(self._requests[number % _NUM_REQUESTS])
            except Exception as error:  # noqa: BLE001 Whatever it is, it counts.
                self.wrong.append(f"{kind}: {error!r}")
                continue
            if any(is_close(answer, scores) for scores in self._expected[number % _NUM_REQUESTS]):
                self.counts[kind] += 1
            else:
                self.wrong.append(f"{kind}: scores of no version")

    def _break(self) -> None:
        host, port = self._addresses["rest"].rsplit(":", 1)
        head = f"POST /v1/models/{NAME}:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
        bodies = ("\r\n{", "\r\nno JSON..", "Content-Encoding: gzip\r\n\r\nno gzip..", "")
        beginnings = [*((head + body).encode() for body in bodies), b"", b"\x16\x03\x01 no HTTP\r\n\r\n"]
        held: list[socket.socket] = []
        with connect(self._addresses["grpc"], NAME) as client:
            for number in self._turns("broken"):
                self.counts["broken"] += 2
                with contextlib.suppress(OSError):
                    held.append(socket.create_connection((host, int(port)), _TIMEOUT_S))
                    held[-1].sendall(beginnings[number % len(beginnings)])
                while len(held) > 100:  # The rest is left open until then.
                    held.pop(0).close()
                _break_call(client, self._requests[number % _NUM_REQUESTS], number)
        for connection in held:
            connection.close()

    def _swap(self) -> None:
        for number in self._turns("swap"):
            if number:
                version, aside = number + 1, self._folder / f".tmp-{number + 1}"
                shutil.copytree(self._models[number % len(self._models)], aside)
                os.rename(aside, self._folder / str(version))
                self.counts["swap"] += 1
                shutil.rmtree(self._folder / str(version - _KEPT), ignore_errors=True)

    def _sample(self) -> None:
        for _ in self._turns("sample"):
            self.samples.append((time.monotonic() - self._start, self._process.memory_info().rss))


def _break_call(client: Client, arrays: Arrays, number: int) -> None:
    with contextlib.suppress(Exception):  # The server has to refuse it.
        match number % 3:
            case 0:  # Given up at once.
                client.predict(RANK, arrays, 0.001)
            case 1:
                client.predict(RANK, dict(list(arrays.items())[1:]), _TIMEOUT_S)
            case _:
                client.predict(f"unknown_{number}", arrays, _TIMEOUT_S)


def main() -> int:
    """Soaks and prints; returns 1 where a request failed or memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="an exported SavedModel")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--output", type=Path, default=Path("runs/bench-soak.json"), help="all numbers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sangam-soak-") as scratch:
        first, second, folder = (Path(scratch) / name for name in ("first", "second", "versions"))
        shutil.copytree(arguments.model, first, ignore=shutil.ignore_patterns("manifest.json"))
        save_changed(first, second)
        shutil.copytree(first, folder / "1")
        log = Path(scratch) / "server.log"
        with server(folder, log) as (addresses, pid):
            soak = Soak(addresses, pid, folder, (first, second), arguments.minutes * 60)
            soak.run()
        problems = [line for line in log.read_text().splitlines() if " ERROR " in line or "Traceback" in line]
    numbers: dict[str, Any] = {**summary(soak.samples), **soak.counts, "num_wrong": len(soak.wrong)}
    numbers |= {"wrong": soak.wrong[:20], "errors_in_log": problems[:20]}
    print(json.dumps(numbers, indent=1))
    results.write(arguments.output, numbers | {"samples": soak.samples})
    return 0 if not soak.wrong and not problems and numbers["growth"] <= _MOST_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())

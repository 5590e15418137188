"""Whether a server's memory stays flat: `python -m bench.soak MODEL --minutes 20`.

A server of MODEL, an exported SavedModel with the signature `rank`, is asked by both interfaces, gets a new version
every half minute, and is sent what clients get wrong: broken bodies, halves of requests, and calls that are given up.
Its resident memory is read every few seconds. Rates are low and bounded: this is about time, not about load.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from numpy.typing import NDArray

from bench import results
from bench.serving import Arrays, Bare, request_for, save_changed, server
from components.server.client import Client, connect
from schemas.contracts.export import RANK

_NAME = "ranker"
_CANDIDATES, _NUM_REQUESTS = 50, 8
_SAMPLE_S, _SWAP_S = 5.0, 30.0
_PAUSE_S = {"grpc": 0.05, "rest": 0.1, "broken": 0.2}
"""Between two requests of one kind."""
_KEPT = 5
"""Versions in the folder: a busy server may still load one that is some swaps old."""
_WARM_SHARE = 0.25
"""Of the time, left out of the slope: memory is reserved while the first versions are swapped."""
_MOST_GROWTH = 0.05
"""Of the memory, over the time that counts."""
_TIMEOUT_S = 30


@dataclass
class Soaked:
    """What was seen.

    Attributes:
        samples: seconds since the start, and the server's resident bytes.
        answers: right ones, by interface.
        wrong: honest requests that failed, or whose scores are no version's.
        num_broken: sent on purpose.
        num_swaps: versions put.
    """

    samples: list[tuple[float, int]] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=lambda: {"grpc": 0, "rest": 0})
    wrong: list[str] = field(default_factory=list)
    num_broken: int = 0
    num_swaps: int = 0


def told(samples: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """Returns the least and the most memory and its slope, of what was sampled after the first quarter.

    The slope is that of each minute's least: while a version is swapped two are in memory.
    """
    first = samples[-1][0] * _WARM_SHARE
    counted = [(at, size) for at, size in samples if at >= first]
    minutes = [
        (at, min(size for _, size in of_minute))
        for at, of_minute in ((at, list(found)) for at, found in itertools.groupby(counted, lambda one: one[0] // 60))
    ]
    slope = float(np.polyfit(*np.array(minutes, float).T, 1)[0]) if len(minutes) > 1 else 0.0
    sizes = [size for _, size in counted]
    return {
        "minutes": samples[-1][0] / 60,
        "counted_minutes": len(minutes),
        "first_mib": minutes[0][1] / 2**20,
        "last_mib": minutes[-1][1] / 2**20,
        "least_mib": min(sizes) / 2**20,
        "most_mib": max(sizes) / 2**20,
        "slope_mib_per_hour": slope * 60 / 2**20,
        "growth": slope * (len(minutes) - 1) / min(sizes),
    }


class Soak:
    """Everything that goes on at a server, each in a thread of its own, until it is told to stop."""

    def __init__(self, addresses: Mapping[str, str], pid: int, folder: Path, models: Sequence[Path], seconds: float):
        self._addresses, self._folder, self._models = addresses, folder, models
        self._process, self._end = psutil.Process(pid), time.monotonic() + seconds
        self._start, self.found = time.monotonic(), Soaked()
        bare = [Bare(model) for model in models]
        self._requests = [
            request_for(bare[0].inputs, context=set(), candidates=_CANDIDATES, seed=seed)
            for seed in range(_NUM_REQUESTS)
        ]
        self._expected = [[model(arrays) for model in bare] for arrays in self._requests]

    def run(self) -> Soaked:
        """Returns what was seen once the time is over."""
        works = (self._ask_grpc, self._ask_rest, self._break, self._swap, self._sample)
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.found

    def _turns(self, pause_s: float) -> Iterator[int]:
        for number in itertools.count():
            if time.monotonic() >= self._end:
                return
            yield number
            time.sleep(max(0.0, min(pause_s, self._end - time.monotonic())))

    def _ask_grpc(self) -> None:
        with connect(self._addresses["grpc"], _NAME) as client:
            for number in self._turns(_PAUSE_S["grpc"]):
                arrays = self._requests[number % _NUM_REQUESTS]
                self._check("grpc", number, lambda arrays=arrays: client.predict(RANK, arrays, _TIMEOUT_S))

    def _ask_rest(self) -> None:
        with httpx.Client(timeout=_TIMEOUT_S) as client:
            for number in self._turns(_PAUSE_S["rest"]):
                inputs = {name: _plain(values) for name, values in self._requests[number % _NUM_REQUESTS].items()}
                body = {"signature_name": RANK, "inputs": inputs}
                self._check("rest", number, lambda body=body: _outputs(client.post(self._url(), json=body)))

    def _check(self, kind: str, number: int, ask: Callable[[], Arrays]) -> None:
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 Whatever it is, it counts.
            self.found.wrong.append(f"{kind}: {error!r}")
            return
        if any(_is_close(answer, scores) for scores in self._expected[number % _NUM_REQUESTS]):
            self.found.answers[kind] += 1
        else:
            self.found.wrong.append(f"{kind}: scores of no version")

    def _break(self) -> None:
        host, port = self._addresses["rest"].rsplit(":", 1)
        path = f"/v1/models/{_NAME}:predict"
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
        beginnings = [
            (head % 100 + "\r\n{").encode(),
            (head % 9 + "\r\nno JSON..").encode(),
            (head % 9 + "Content-Encoding: gzip\r\n\r\nno gzip..").encode(),
            (head % 100).encode(),
            b"",
            b"\x16\x03\x01 no HTTP\r\n\r\n",
        ]
        held: list[socket.socket] = []
        with connect(self._addresses["grpc"], _NAME) as client:
            for number in self._turns(_PAUSE_S["broken"]):
                self.found.num_broken += 2
                with contextlib.suppress(OSError):
                    held.append(socket.create_connection((host, int(port)), _TIMEOUT_S))
                    held[-1].sendall(beginnings[number % len(beginnings)])
                while len(held) > 100:  # The rest is left open until then.
                    held.pop(0).close()
                _break_call(client, self._requests[number % _NUM_REQUESTS], number)
        for connection in held:
            connection.close()

    def _swap(self) -> None:
        for number in self._turns(_SWAP_S):
            if number == 0:
                continue
            version = number + 1
            aside = self._folder / f".tmp-{version}"
            shutil.copytree(self._models[number % len(self._models)], aside)
            os.rename(aside, self._folder / str(version))
            self.found.num_swaps += 1
            shutil.rmtree(self._folder / str(version - _KEPT), ignore_errors=True)

    def _sample(self) -> None:
        for _ in self._turns(_SAMPLE_S):
            self.found.samples.append((time.monotonic() - self._start, self._process.memory_info().rss))

    def _url(self) -> str:
        return f"http://{self._addresses['rest']}/v1/models/{_NAME}:predict"


def _break_call(client: Client, arrays: Arrays, number: int) -> None:
    with contextlib.suppress(Exception):  # To be refused is what it is for.
        match number % 3:
            case 0:  # Given up at once.
                client.predict(RANK, arrays, 0.001)
            case 1:
                client.predict(RANK, dict(list(arrays.items())[1:]), _TIMEOUT_S)
            case _:
                client.predict(f"unknown_{number}", arrays, _TIMEOUT_S)


def _plain(values: NDArray[Any]) -> Any:
    return np.char.decode(values.astype("S")).tolist() if values.dtype.kind == "O" else values.tolist()


def _outputs(answer: httpx.Response) -> dict[str, NDArray[Any]]:
    answer.raise_for_status()
    return {name: np.array(values) for name, values in answer.json()["outputs"].items()}


def _is_close(answer: Arrays, expected: Arrays) -> bool:
    return answer.keys() == expected.keys() and all(
        np.allclose(answer[name], expected[name], rtol=1e-4, atol=1e-5) for name in expected
    )


def main() -> int:
    """Soaks and tells; returns 1 where a request failed or memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="an exported SavedModel")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--output", type=Path, default=Path("runs/bench-soak.json"), help="all numbers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sangam-soak-") as scratch:
        first, second, folder = (Path(scratch) / name for name in ("first", "second", "versions"))
        shutil.copytree(arguments.model, first)
        (first / "manifest.json").unlink(missing_ok=True)
        save_changed(first, second)
        shutil.copytree(first, folder / "1")
        log = Path(scratch) / "server.log"
        with server(folder, log) as (addresses, pid):
            found = Soak(addresses, pid, folder, (first, second), arguments.minutes * 60).run()
        problems = [line for line in log.read_text().splitlines() if " ERROR " in line or "Traceback" in line]
    numbers = told(found.samples) | {
        "answers": found.answers,
        "wrong": found.wrong[:20],
        "num_wrong": len(found.wrong),
        "broken": found.num_broken,
        "swaps": found.num_swaps,
        "errors_in_log": problems[:20],
    }
    print(json.dumps(numbers, indent=2))
    results.write(arguments.output, numbers | {"samples": found.samples})
    return 0 if not found.wrong and not problems and numbers["growth"] <= _MOST_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())

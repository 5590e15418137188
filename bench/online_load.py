"""Latency of requests with deltas over that without: `python -m bench.online_load FOLDER`.

Two servers of the demo's model share core 0, one at a time: the other one is stopped (SIGSTOP). One follows the deltas
of `sangam online`; the other serves the same version from a folder without deltas. `sangam online`, on core 1, trains
on rows all the time, so that both meet the same load. Requests of 200 candidates come at a fixed rate (open loop), and
a request's time counts from when it was due. Turns alternate; the ratio is that of all turns together.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from bench import results
from bench.online_latency import SETTINGS
from bench.online_world import NAME, FolderSource, OnlineWorld, Traffic, served
from sangam.components.server.client import Client, connect
from sangam.schemas.contracts.export import RANK
from tests.e2e.user_run import wait_until

_MOST_RATIO = 1.3
_SERVER_CORE, _OTHER_CORE = {0}, {1}
_CONTEXT = ("user_id", "language", "tab", "recent_posts", "network_mbps", "hour")
_DEFAULTS = {"language": "unknown", "network_mbps": 0.0, "author_id": 0, "post_age_h": 0.0}
_NUM_REQUESTS, _CANDIDATES = 32, 200
_SENDERS, _TIMEOUT_S, _SETTLE_S, _LONGEST_S = 16, 30, 3.0, 180.0


def requests_of(rows: pa.Table) -> list[dict[str, Any]]:
    """Returns requests for users and posts of the logs: one row of context and the candidates' rows each."""
    dtypes = {"network_mbps": np.float32, "duration_s": np.float32, "post_age_h": np.float32}
    dtypes["author_followers"] = np.float32
    made = []
    for number in range(_NUM_REQUESTS):
        part = rows.slice(number * _CANDIDATES, _CANDIDATES).to_pydict()
        arrays: dict[str, Any] = {}
        for name, values in part.items():
            if name in ("event_time", "like", "share", "download", "long_watch"):
                continue
            of_request = values[:1] if name in _CONTEXT else values
            if isinstance(of_request[0], list):
                width = max(1, *map(len, of_request)) if len(of_request) > 1 else max(1, len(of_request[0]))
                empty = "" if name == "hashtags" else 0
                arrays[name] = np.array([[*each, *[empty] * (width - len(each))] for each in of_request])
                arrays[f"{name}_length"] = np.array([len(each) for each in of_request], np.int64)
            else:
                filled = [_DEFAULTS[name] if value is None else value for value in of_request]
                arrays[name] = np.array(filled, dtypes.get(name))
        made.append(arrays)
    return made


def ask(client: Client, requests: Sequence[Mapping[str, Any]], *, per_s: float, seconds: float) -> list[float]:
    """Sends requests at a fixed rate; returns each one's seconds from when it was due."""
    messages = [client.request(RANK, arrays) for arrays in requests]
    begin = time.perf_counter() + 0.1

    def send(number: int) -> float:
        due = begin + number / per_s
        time.sleep(max(0.0, due - time.perf_counter()))
        client.send(messages[number % len(messages)], _TIMEOUT_S)
        return time.perf_counter() - due

    with ThreadPoolExecutor(_SENDERS) as pool:
        return list(pool.map(send, range(int(per_s * seconds))))


@contextlib.contextmanager
def _alone(running: int, stopped: int) -> Iterator[None]:
    """Stops one server while the other one is measured."""
    os.kill(stopped, signal.SIGSTOP)
    try:
        os.kill(running, signal.SIGCONT)
        yield
    finally:
        os.kill(stopped, signal.SIGCONT)


def _wait_until_caught_up(client: httpx.Client, rest: str) -> int:
    given_up = time.monotonic() + _LONGEST_S
    while time.monotonic() < given_up:
        state = served(client, rest)
        if (state["published_s_ago"] or 0.0) < 15.0:
            time.sleep(_SETTLE_S)
            return int(state["rows_applied"])
        time.sleep(0.2)
    raise RuntimeError(f"no new delta is served for {_LONGEST_S:.0f} s: {state}")


def measure(world: OnlineWorld, setting: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the times of all turns, and how many rows were applied in those with deltas."""
    settings, poll_s = SETTINGS[setting]
    settings = {**settings, "sync": {**settings.get("sync", {}), "full_every": 100_000}}
    world.forget()
    rows, source = world.last_day(), FolderSource(world.stream)
    control = world.folder / "control" / NAME
    shutil.rmtree(control, ignore_errors=True)
    base = sorted(path for path in world.versions.iterdir() if path.name.isdecimal())[0]
    shutil.copytree(base, control / base.name)
    times: dict[str, list[list[float]]] = {"with": [], "without": []}
    applied = 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(world.online(settings, source, _OTHER_CORE))
        stack.enter_context(Traffic(rows, source, rows_per_s=arguments.rows_per_s))
        servers = {
            "with": stack.enter_context(world.server(world.versions, _SERVER_CORE, poll_s)),
            "without": stack.enter_context(world.server(control, _SERVER_CORE, poll_s)),
        }
        http = stack.enter_context(httpx.Client(timeout=30))
        clients = {name: stack.enter_context(connect(at["grpc"], NAME)) for name, (at, _) in servers.items()}
        pids, requests = {name: pid for name, (_, pid) in servers.items()}, requests_of(rows)
        rest = servers["with"][0]["rest"]
        wait_until(world.is_caught_up, "training has caught up", _LONGEST_S)
        for turn in range(2 * arguments.turns):
            name = ("with", "without", "without", "with")[turn % 4]
            other = "without" if name == "with" else "with"
            with _alone(pids[name], pids[other]):
                before = 0
                if name == "with":
                    before = _wait_until_caught_up(http, rest)
                else:
                    time.sleep(_SETTLE_S)
                ask(clients[name], requests, per_s=arguments.per_s, seconds=2.0)
                times[name].append(ask(clients[name], requests, per_s=arguments.per_s, seconds=arguments.seconds))
                applied += int(served(http, rest)["rows_applied"]) - before if name == "with" else 0
    return {"times": times, "rows_applied": applied}


def summary(times: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Any]:
    """Returns the percentiles of all turns together in ms, each turn's p99, and the ratio."""
    pooled = {name: np.concatenate([np.array(turn) for turn in turns]) * 1e3 for name, turns in times.items()}
    found: dict[str, Any] = {
        name: {"p50": np.percentile(all_ms, 50), "p99": np.percentile(all_ms, 99), "most": all_ms.max()}
        for name, all_ms in pooled.items()
    }
    found["turns_p99"] = {
        name: [float(np.percentile(turn, 99) * 1e3) for turn in turns] for name, turns in times.items()
    }
    found["ratio_p99"] = found["with"]["p99"] / found["without"]["p99"]
    return found


def main() -> int:
    """Measures each setting and prints a table; returns 1 where the ratio is more than 1.3."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="as for bench.online_latency")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--turns", type=int, default=6, help="of each server")
    parser.add_argument("--seconds", type=float, default=30, help="of one turn")
    parser.add_argument("--per-s", type=float, default=40.0, help="requests a second")
    parser.add_argument("--rows-per-s", type=int, default=100, help="that are trained on")
    arguments = parser.parse_args()
    world = OnlineWorld(arguments.folder)
    world.prepare()
    os.sched_setaffinity(0, _OTHER_CORE)
    print(
        "| online | requests | p50 without | with | p99 without (turns) | with (turns) | ratio of p99 | rows applied |"
    )
    print("|---|---|---|---|---|---|---|---|")
    ratios = []
    for setting in arguments.settings:
        measured = measure(world, setting, arguments)
        numbers = summary(measured["times"])
        ratios.append(numbers["ratio_p99"])
        p50, p99 = ([numbers[name][what] for name in ("without", "with")] for what in ("p50", "p99"))
        spread = [
            f"{min(turns):.1f} to {max(turns):.1f}" for turns in (numbers["turns_p99"][n] for n in ("without", "with"))
        ]
        count = sum(map(len, measured["times"]["with"]))
        print(
            f"| {setting} | 2 x {count:,} | {p50[0]:.1f} ms | {p50[1]:.1f} ms | {p99[0]:.1f} ms ({spread[0]}) | "
            f"{p99[1]:.1f} ms ({spread[1]}) | {ratios[-1]:.2f} | {measured['rows_applied']:,} |",
            flush=True,
        )
        results.write(arguments.folder / f"load-{setting}.json", numbers)
    return 0 if max(ratios) <= _MOST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())

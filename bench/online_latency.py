"""Seconds from an action to a changed prediction: `python -m bench.online_latency FOLDER`.

`sangam online` and `sangam serve` run on the demo while rows arrive at a steady rate. A probe is a user with a post and
an author of its own, known to the model: rows of it that say "like" appear, and its score is asked for by REST every
50 ms. The time counts from the rename of the rows' file, or from the broker's acknowledgement, to the first answer with
another score. A change counts only if it came with the first served delta whose segments have the probe's rows: the
dense weights change all scores.
"""

import argparse
import contextlib
import itertools
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from bench import results
from bench.online_world import NAME, FolderSource, KafkaSource, OnlineWorld, Traffic, served
from sangam.schemas.contracts import deltas, segments
from tests.components.examples.sample_files import read_file
from tests.kafka.broker import Broker

SETTINGS: dict[str, tuple[dict[str, Any], float | None]] = {
    "default": ({}, None),
    "quick": (
        {
            "sync": {"rows_every_s": 2, "dense_every_s": 20},
            "joining": {"lateness_s": 1, "settle_s": 0.2, "segment_every_s": 1},
        },
        0.5,
    ),
}
"""The spec's section `online`, and `--poll-s` of the server."""
_POLL_S = 0.05
_ROWS_A_PROBE = 8
_KNOWN_S = 45.0
_LONGEST_S, _MOST_S = 120.0, 60.0


@dataclass
class Probe:
    """One user whose score must change.

    Attributes:
        number: number of the user.
        appeared: time when its file was renamed.
        changes: times when its score had changed.
        counts_from: a change after this came with the delta that has its rows; None: no such delta is served yet.
        took_s: seconds from the rename to the change; None: not yet.
    """

    number: int
    appeared: float = 0.0
    score: float | None = None
    changes: list[float] = field(default_factory=list)
    counts_from: float | None = None
    took_s: float | None = None

    @property
    def user(self) -> str:
        """The user's id."""
        return f"probe-{self.number}"


class Watch:
    """Asks for the scores of all probes, and finds the delta with the rows of each."""

    def __init__(self, world: OnlineWorld, rest: str, probes: Sequence[Probe]):
        self._world, self._url, self._rest = world, f"http://{rest}/v1/models/{NAME}:predict", rest
        self._client, self._probes = httpx.Client(timeout=30), probes
        self._segments = world.root / "online" / NAME / "examples"
        self._seen_segment = segments.newest(self._segments)
        self._last = served(self._client, rest)
        self._last_at = time.monotonic()

    def poll(self) -> None:
        """Asks once, and notes changes that came with a delta with the probe's rows."""
        body = {"signature_name": "rank", "instances": [_request(probe) for probe in self._probes]}
        answer = self._client.post(self._url, json=body)
        answer.raise_for_status()
        now = time.monotonic()
        for probe, scores in zip(self._probes, answer.json()["predictions"], strict=True):
            score = float(np.ravel(scores["like"])[0])
            if probe.score is not None and score != probe.score:
                probe.changes.append(now)
            probe.score = score
        state = served(self._client, self._rest)
        if state["delta"] != self._last["delta"]:
            self._find(state)
            self._last, self._last_at = state, now
        for probe in self._probes:
            if probe.counts_from is not None and probe.took_s is None:
                changed = [at for at in probe.changes if at > probe.counts_from]
                if changed:
                    probe.took_s = changed[0] - probe.appeared
                elif now > probe.counts_from + _LONGEST_S:
                    raise RuntimeError(f"{probe.user}: a delta with its rows is served, and its score is the same")

    def _find(self, state: Mapping[str, Any]) -> None:
        delta = deltas.read(self._world.versions, state["lineage"], state["delta"])
        users: set[bytes] = set()
        for number in range(self._seen_segment + 1, delta.segment + 1):
            for row in read_file(str(segments.examples_file(self._segments, number))):
                users.update(row["user_id"])
        self._seen_segment = max(self._seen_segment, delta.segment)
        for probe in self._probes:
            if probe.user.encode() in users and probe.appeared and probe.counts_from is None:
                probe.counts_from = max(self._last_at, probe.appeared)


def _request(probe: Probe) -> dict[str, Any]:
    """Returns one candidate: only the probe's own rows are looked up."""
    return {
        "user_id": probe.user,
        "post_id": 10**9 + probe.number,
        "author_id": 10**9 + probe.number,
        "language": probe.user,
        "tab": probe.user,
        "hashtags": [""],
        "hashtags_length": 0,
        "recent_posts": [0],
        "recent_posts_length": 0,
        "duration_s": 20.0,
        "post_age_h": 5.0,
        "author_followers": 100.0,
        "network_mbps": 10.0,
        "hour": 12,
    }


def _rows(probes: Sequence[Probe], schema: pa.Schema, times: int) -> pa.Table:
    labels = {"like": 1, "share": 0, "download": 0, "long_watch": 1, "event_time": 0}
    rows = [
        {**{k: v for k, v in _request(probe).items() if not k.endswith("_length")}, **labels}
        | {"hashtags": [], "recent_posts": []}
        for probe in probes
        for _ in range(times)
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def measure(
    world: OnlineWorld,
    setting: str,
    source: FolderSource | KafkaSource,
    *,
    probes: int,
    rows_per_s: int,
    seed: int,
) -> list[float]:
    """Returns the seconds of each probe."""
    settings, poll_s = SETTINGS[setting]
    chance, rows = random.Random(seed), world.last_day()
    cores = os.sched_getaffinity(0)
    sent = [Probe(1000 * seed + number) for number in range(probes)]
    with (
        world.online(settings, source, cores),
        world.server(world.versions, cores, poll_s) as (addresses, _),
        Traffic(rows, source, rows_per_s=rows_per_s),
    ):
        watch = Watch(world, addresses["rest"], sent)
        source.appear(_rows(sent, rows.schema, 1))  # From now on the model knows them.
        _poll_for(watch, _KNOWN_S)
        for probe in sent:
            probe.appeared = source.appear(_rows([probe], rows.schema, _ROWS_A_PROBE))
            _poll_for(watch, chance.uniform(0.5, 3.5))
        given_up = time.monotonic() + _LONGEST_S
        while any(probe.took_s is None for probe in sent) and time.monotonic() < given_up:
            _poll_for(watch, _POLL_S)
    return [probe.took_s if probe.took_s is not None else float("inf") for probe in sent]


@contextlib.contextmanager
def _topic(world: OnlineWorld) -> Iterator[KafkaSource]:
    with Broker(world.folder / "broker") as broker:
        yield KafkaSource(broker)


def _poll_for(watch: Watch, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        watch.poll()
        time.sleep(max(0.0, started + _POLL_S - time.monotonic()))


def main() -> int:
    """Measures each setting and prints a table; returns 1 where a probe took a minute or more."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for logs, root and stream; used again where they are there")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--sources", nargs="*", default=["folder", "kafka"], choices=("folder", "kafka"))
    parser.add_argument("--probes", type=int, default=40)
    parser.add_argument("--rows-per-s", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    world = OnlineWorld(arguments.folder)
    world.prepare()
    took: dict[str, list[float]] = {}
    sources: dict[str, FolderSource | KafkaSource] = {}
    print("| online | source | probes | least | median | p95 | most |\n|---|---|---|---|---|---|---|")
    with contextlib.ExitStack() as stack:
        for number, (name, setting) in enumerate(itertools.product(arguments.sources, arguments.settings)):
            if name not in sources:
                world.forget()  # Rows that wait for actions would be missed at another source.
                is_folder = name == "folder"
                sources[name] = FolderSource(world.stream) if is_folder else stack.enter_context(_topic(world))
            times = measure(
                world,
                setting,
                sources[name],
                probes=arguments.probes,
                rows_per_s=arguments.rows_per_s,
                seed=10 * arguments.seed + number,
            )
            took[f"{name} {setting}"] = times
            least, median, p95, most = np.percentile(times, (0, 50, 95, 100))
            found = f"{least:.1f} s | {median:.1f} s | {p95:.1f} s | {most:.1f} s"
            print(f"| {setting} | {name} | {len(times)} | {found} |", flush=True)
    results.write(arguments.folder / "latency.json", took)
    return 0 if max(max(times) for times in took.values()) < _MOST_S else 1


if __name__ == "__main__":
    sys.exit(main())

"""Soaks online training: `python -m tests.soak.online [--minutes 30] [--seed 1]`, for `make soak-online`.

A feed produces views and actions to a real broker, or with --files to a folder; `sangam online` joins them and learns,
`sangam serve` follows. Ranks, launcher, joiner, supervisor, server and broker are killed (SIGKILL) at random times, and
started again. One clock in a thousand is wrong, by a minute to 70 years; files grow, are written with pauses, damaged,
linked, copied and renamed. At the end each message must have been joined and trained on once, or counted, by the
segments and by the counts that the tables keep, no label may be wrong, no minute may be without examples, the server
must score every view as the trainer's last checkpoint does, and memory must be flat.
"""

import argparse
import functools
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx

from sangam.trainer_module.checkpoint.folder import published
from tests.kafka.broker import Broker
from tests.soak.online import books, memory
from tests.soak.online.feed import PARTITIONS, Feed
from tests.soak.online.programs import SUPERVISOR, Programs, wait_for
from tests.soak.online.world import ACTIONS, NAME, VIEWS, SoakWorld

MOST_DIFFERENCE = 1e-5
MOST_GROWTH = 0.10
MOST_GAP_S = 60.0
"""Between two segments with examples, restarts included."""
_TRAINING = ("rank", "launcher", SUPERVISOR)
"""After one of these is killed, training must have advanced before the next one is."""
_ASK_S = 0.2
_LONGEST_S = 600.0


@dataclass
class Asked:
    """A client's answers: right ones, refused ones with their text, and those that no server was there to give."""

    answered: int = 0
    away: int = 0
    refused: Counter[str] = field(default_factory=Counter)


class Soak:
    """One soak."""

    def __init__(self, world: SoakWorld, broker: Broker | None, *, seed: int, rows_per_s: float):
        """Takes a running broker, and makes the topics; None: the world's folder is read."""
        self.world, self._chance = world, random.Random(seed)
        rows = world.prepare()
        if broker is not None:
            for topic in (VIEWS, ACTIONS):
                broker.create_topic(topic, PARTITIONS)
        to = world.stream if broker is None else broker.address
        self.feed = Feed(rows, to, rows_per_s=rows_per_s, seed=seed)
        self.programs, self.asked = Programs(world, broker, seed=seed), Asked()
        self._over = threading.Event()
        self._step = 0

    def run(self, kill: Callable[[], None], *, calm_s: float = 0.0) -> dict[str, list[memory.Sample]]:
        """Calls what kills, goes on without kills, waits until all is learned and served, and stops training.

        Returns:
            Memory while processes were killed, and after that.
        """
        client = threading.Thread(target=self._ask, daemon=True)
        self.programs.start()
        try:
            self.feed.start()
            client.start()
            wait_for(lambda: self._learned() > 0, "training begins", _LONGEST_S)
            with memory.Memory(self.programs.processes) as sampled:
                kill()
                self.programs.wait_for_broker()
            with memory.Memory(self.programs.processes) as calm:
                time.sleep(calm_s)
                self.feed.stop()
                wait_for(self._is_all_learned, "all is learned", _LONGEST_S)
            code = self.programs.stop_online()
            assert code == 143, f"sangam online ended with {code}"
            wait_for(self._is_served, "the last delta is served", 120.0)
        finally:
            self._over.set()
            client.join(30)
        return {"with kills": sampled.samples, "after them": calm.samples}

    def kill_for(self, seconds: float, *, mean_pause_s: float) -> None:
        """Kills one process after another, chosen by chance."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self._chance.uniform(0.0, 2.0 * mean_pause_s))
            kinds = [kind for kind in self.programs.kinds if kind not in _TRAINING or self._has_advanced()]
            self._kill(self._chance.choice(kinds))

    def kill_each_once(self) -> None:
        """Kills one process of each kind, in an order by chance."""
        for kind in self._chance.sample(self.programs.kinds, len(self.programs.kinds)):
            if kind in _TRAINING:
                wait_for(self._has_advanced, "training advances", _LONGEST_S)
            wait_for(functools.partial(self._kill, kind), f"a {kind} runs", _LONGEST_S)
            time.sleep(self._chance.uniform(0.0, 2.0))

    def _kill(self, kind: str) -> bool:
        self.programs.wait_for_broker()
        self.programs.start_crashed()
        is_killed = self.programs.kill(kind)
        if is_killed:
            print(f"{time.strftime('%H:%M:%S')} killed: {kind}", file=sys.stderr, flush=True)
            if kind in _TRAINING:
                self._step = self._last_step()
        return is_killed

    def _has_advanced(self) -> bool:
        return self._last_step() > self._step

    def _last_step(self) -> int:
        folders = list(self.world.state.glob("training/*/checkpoints"))
        found = published(folders[0]) if folders else []
        return int("".join(letter for letter in found[-1].name if letter.isdigit())) if found else 0

    def _is_all_learned(self) -> bool:
        return self._learned() >= len(self.feed.truth.views)

    def _learned(self) -> int:
        return int(books.state_of(self.world).get("examples", 0))

    def _is_served(self) -> bool:
        served, state = self.programs.served(), books.state_of(self.world)
        return served is not None and served["delta"] == state["delta"] and served["problem"] is None

    def _ask(self) -> None:
        """Asks for scores all the time, as a client does that tries again."""
        with httpx.Client(timeout=30) as client:
            while not self._over.wait(_ASK_S):
                rows = list(self.feed.rows.values())[-20:]
                addresses = self.programs.addresses()
                if not rows or addresses is None:
                    self.asked.away += bool(rows)
                    continue
                arrays = books.requests_of(rows)[0]
                body = {"signature_name": "rank", "inputs": {name: each.tolist() for name, each in arrays.items()}}
                try:
                    answer = client.post(f"http://{addresses['rest']}/v1/models/{NAME}:predict", json=body)
                except httpx.TransportError:
                    self.asked.away += 1
                    continue
                if answer.status_code == 200:
                    self.asked.answered += 1
                else:
                    self.asked.refused[answer.text[:200]] += 1


def refuse_unbalanced(world: SoakWorld, soak: Soak) -> tuple[int, float]:
    """Compares all books; returns how many scores were compared, and their largest difference.

    Raises:
        AssertionError: they do not balance.
    """
    truth, state = soak.feed.truth, books.state_of(world)
    books.refuse_wrong_joins(world, truth)
    books.refuse_uncounted(world, truth, is_folder=soak.feed.folder is not None)
    assert (gap_s := books.longest_gap_s(world)) <= MOST_GAP_S, f"no examples for {gap_s:.0f} s"
    assert state["examples"] == len(truth.views), state
    assert books.trained(world) == {1: len(truth.views)}
    model, addresses = books.export_last(world), soak.programs.addresses()
    assert addresses is not None
    number, difference = books.served_differs(model, addresses["grpc"], list(soak.feed.rows.values()))
    assert difference <= MOST_DIFFERENCE, difference
    assert not soak.asked.refused, soak.asked.refused
    assert not soak.programs.crashes, soak.programs.crashes
    return number, difference


def main() -> int:
    """Soaks and prints tables; returns 1 where memory grows."""
    parser = argparse.ArgumentParser(prog="tests.soak.online", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--calm-minutes", type=float, default=10.0, help="then, without kills: memory of long lives")
    parser.add_argument("--seed", type=int, default=1, help="of the kills and the feed")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rows-per-s", type=float, default=40.0)
    parser.add_argument("--pause-s", type=float, default=15.0, help="mean time between two kills")
    parser.add_argument("--files", action="store_true", help="rows come in files of a folder, without a broker")
    parser.add_argument("--folder", type=Path, help="kept, and used again for the daily run; left out: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        world = SoakWorld(arguments.folder or Path(scratch), ranks=arguments.ranks)
        shutil.rmtree(world.directory / "broker", ignore_errors=True)
        with nullcontext() if arguments.files else Broker(world.directory / "broker") as broker:
            soak = Soak(world, broker, seed=arguments.seed, rows_per_s=arguments.rows_per_s)
            try:
                samples = soak.run(
                    lambda: soak.kill_for(arguments.minutes * 60.0, mean_pause_s=arguments.pause_s),
                    calm_s=arguments.calm_minutes * 60.0,
                )
                document = {when: [asdict(sample) for sample in found] for when, found in samples.items()}
                (world.directory / "memory.json").write_text(json.dumps(document))
                number, difference = refuse_unbalanced(world, soak)
            finally:
                soak.programs.end()
    return 0 if _tell(soak, samples, number, difference) else 1


def _tell(soak: Soak, samples: Mapping[str, list[memory.Sample]], number: int, difference: float) -> bool:
    truth, is_flat = soak.feed.truth, True
    kills = ", ".join(f"{soak.programs.kills[kind]} {kind}" for kind in soak.programs.kinds)
    print(f"killed: {kills}")
    print(f"views produced, joined, trained on once: {len(truth.views):,}; messages: {sum(truth.messages.values()):,}")
    print(f"counted: {len(truth.left_out):,} views, {truth.wrong_actions:,} actions, {truth.poison:,} poison")
    print(f"longest time between segments: {books.longest_gap_s(soak.world):.0f} s")
    if soak.feed.folder is not None:
        print(f"files: {', '.join(f'{count:,} {kind}' for kind, count in sorted(soak.feed.folder.faults.items()))}")
    print(f"labels: {', '.join(f'{len(ids):,} {task}' for task, ids in truth.labels.items())}")
    print(f"scores compared: {number:,}; largest difference {difference:.1e}")
    print(f"requests answered: {soak.asked.answered:,}; while the server was away: {soak.asked.away:,}")
    print("| process | | samples | least MiB | most MiB | growth |\n|---|---|---|---|---|---|")
    for when, found in samples.items():
        for kind, each in memory.told(found).items():
            print(f"| {kind} | {when} | {each.samples} | {each.least:.0f} | {each.most:.0f} | {each.growth:+.1%} |")
            is_flat &= each.growth <= MOST_GROWTH
    return is_flat


if __name__ == "__main__":
    sys.exit(main())

"""Who runs the loop: starts daily runs and checks, reads what they say, mends bugs, starts again what was killed."""

import json
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.loop import promoting, spec
from bench.loop.books import Kill
from bench.loop.bugs import Bug
from bench.loop.clock import Clock
from bench.loop.programs import Program, Server, kill_of_online
from bench.loop.promoting import Promoter
from bench.loop.tables import day_of
from bench.loop.traffic import Traffic
from bench.loop.world import HOUR_S
from sangam.components.registry.shadow import place_of

_MISTAKE, _REFUSED, _HELD = 2, 3, 4
_CHANGED = "files were added, removed or changed since the run began"
_SEALED_S = 1.2
"""Seconds of the machine's clock within which servers see that an hour is over, and seal its files."""
_AT_MOST, _MENDED_AT_MOST = 0.001, 0.9
"""Bounds on skew: of most runs, and of those of a day that has the rows of a bug that was named and mended."""


@dataclass
class Found:
    """What became of a bug.

    Attributes:
        bug: the bug.
        began_s: when it began, by the world's clock.
        named_s: when a check named its columns and its cause.
        by: that check.
        refused: the daily run of its day was refused, and named it, too.
    """

    bug: Bug
    began_s: float
    named_s: float | None = None
    by: str = ""
    refused: bool = False


@dataclass
class Record:
    """What happened in a week.

    Attributes:
        kills: kills.
        found: planted bugs.
        false: columns that a check named and no bug explains, with the check.
        runs: daily runs: date, exit code, seconds, hours of the world that they took.
        versions: copy of each pushed version, by the day that it serves.
        ingested: what each blessed run has ingested.
        lags_min: minutes between the newest event that servers have learned from and now, each hour.
        deltas: number of deltas at the end of each lineage.
        last_versions: version of each server at the end.
    """

    kills: list[Kill] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, Path] = field(default_factory=dict)
    ingested: list[dict[str, Any]] = field(default_factory=list)
    lags_min: list[float] = field(default_factory=list)
    deltas: dict[str, int] = field(default_factory=dict)
    last_versions: list[int] = field(default_factory=list)


class Operator:
    """Looks at everything before each request, and acts."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        traffic: Traffic,
        servers: Sequence[Server],
        record: Record,
        *,
        seed: int,
        online: Mapping[str, Any] | None,
        shadow: bool,
    ):
        """Takes what it runs.

        Args:
            folder: folder of the week.
            clock: clock of the world.
            traffic: requests, whose bugs are mended.
            servers: servers.
            record: where to note what happens.
            seed: of the victims of kills.
            online: section of the spec; None: no training between daily runs.
            shadow: whether versions wait in the shadow of the live one, but the first that is learned.
        """
        self._folder, self._clock, self._traffic, self._servers = folder, clock, traffic, servers
        self._record, self._chance = record, random.Random(seed)
        self._run: Program | None = None
        self._run_day, self._run_begun, self._kill_run_s = "", (0.0, 0.0), 0.0
        self._check: Program | None = None
        self._online: Program | None = None
        self._sections: dict[str, Any] = {"online": dict(online)} if online else {}
        self._shadow, self.promoter = shadow, Promoter(folder, clock.now)
        self._due: list[tuple[float, Callable[[], None]]] = []

    @property
    def is_running(self) -> bool:
        """Whether a daily run is under way."""
        return self._run is not None

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        """Lets something happen at a time of the world."""
        self._due.append((at_s, act))

    def tick(self) -> None:
        """Looks at everything."""
        now = self._clock.now()
        for due in [each for each in self._due if each[0] <= now]:
            self._due.remove(due)
            due[1]()
        for server in self._servers:
            server.is_ready()
        self._look_at_run()
        self._look_at_check()
        self._look_at_online()
        self.promoter.check()

    def finish(self) -> None:
        """Does what is planned, waits for the run under way, and ends online training."""
        if self._due:
            self._clock.move_to(max(at_s for at_s, _ in self._due))
            self.tick()
        while self._run is not None:
            self._look_at_run()
            time.sleep(0.1)
        if self._check is not None:
            self._check.wait()
            self._look_at_check()
        if self._online is not None:
            self._online.end()

    # Daily runs.

    def run(self, day: str, *, kill: bool = False) -> None:
        """Starts the daily run of a day; it is killed once, and started again, if told so.

        Its bound on skew is raised where the day has rows of a bug that was named and mended.
        """
        is_known = any(day_of(each.began_s) == day and each.named_s is not None for each in self._record.found)
        at_most = _MENDED_AT_MOST if is_known else _AT_MOST
        for server in self._servers:
            server.wait_until_ready()
        time.sleep(_SEALED_S)
        gates = [{"task": "click", "metric": "auc", "at_least": 0.3}, {"skew": "features", "at_most": at_most}]
        file = spec.write(self._folder / "run.yaml", spec.document(gates=gates, **self._sections))
        words = ["run", str(file), "--date", day, *self._folders()]
        self._run = Program(words, self._folder / "logs" / f"run-{day}-{len(self._record.runs)}.log")
        self._run_day, self._run_begun = day, (time.monotonic(), self._clock.now())
        self._kill_run_s = time.monotonic() + self._chance.uniform(3, 25) if kill else float("inf")

    def _look_at_run(self) -> None:
        if self._run is None:
            return
        if time.monotonic() >= self._kill_run_s and self._run.code() is None:
            self._run.kill()
            self._run.wait()
            self._record.kills.append(Kill("run", self._clock.now(), time.monotonic()))
            self.run(self._run_day)
            return
        code = self._run.code()
        if code is None:
            return
        if code == _HELD:  # By processes of a killed run, which are about to end.
            self.run(self._run_day)
            return
        said, day, self._run = self._run.said(), self._run_day, None
        seconds, hours = time.monotonic() - self._run_begun[0], (self._clock.now() - self._run_begun[1]) / HOUR_S
        self._record.runs.append({"date": day, "code": code, "seconds": round(seconds), "hours": round(hours, 1)})
        if code == _MISTAKE and _CHANGED in said:
            # What a killed server has left is sealed within half a minute of the machine, hours of the world.
            self.run(day)
            return
        if code not in (0, _REFUSED):
            raise RuntimeError(f"the run of {day} ended with {code}:\n{said[-4000:]}")
        summary = _summary(said)
        if code == _REFUSED:
            self._named(summary["serving"]["feature_skew"]["columns"], f"the run of {day}")
            for found in self._record.found:
                found.refused |= day_of(found.began_s) == day
            if not any(found.refused and found.named_s for found in self._record.found if day_of(found.began_s) == day):
                raise RuntimeError(f"the run of {day} was refused for no bug that was planted:\n{said[-4000:]}")
            self.run(day)
            return
        self._pushed(day, summary)

    def _pushed(self, day: str, summary: Mapping[str, Any]) -> None:
        pushed = summary["pushed"]
        version = pushed["version"]
        serves = day_of(self._clock.now())
        copy = self._folder / "versions" / serves
        shutil.copytree(place_of(Path(pushed["path"])), copy / version)
        self._record.versions[serves] = copy
        files = (self._folder / "root" / "artifacts").glob("example_gen/examples/*/ingestion.json")
        ingested = [json.loads(file.read_text()) for file in sorted(files, key=lambda each: int(each.parent.name))]
        self._record.ingested.append(next(each for each in reversed(ingested) if each["date"] == day))
        if pushed["shadow_of"]:
            self.promoter.waits(version)
        elif self._shadow:
            self._sections |= promoting.sections()
        if "online" in self._sections and self._online is None:
            self._start_online()

    # Checks of skew.

    def check(self) -> None:
        """Starts a check of skew of today's requests."""
        if self._check is None:
            day, file = day_of(self._clock.now()), spec.write(self._folder / "check.yaml", spec.document())
            log = ["--log", str(self._folder / "data" / "requests"), "--date", day, "--json"]
            words = ["skew", str(file), "--data", str(self._folder / "data"), *log]
            self._check = Program(words, self._folder / "logs" / "skew.log")

    def _look_at_check(self) -> None:
        if self._check is None or (code := self._check.code()) is None:
            return
        said, check, self._check = self._check.log.read_text(), self._check, None
        if code in (0, _REFUSED):
            self._named(json.loads(said)["features"]["columns"], "sangam skew")
        elif "has no requests" not in check.said():
            raise RuntimeError(f"sangam skew ended with {code}:\n{check.said()[-3000:]}")

    def _named(self, columns: Sequence[Mapping[str, Any]], by: str) -> None:
        """Notes what a check has named, and mends the bug if that is it."""
        named = {
            each["column"]: each["cause"]["kind"]
            for each in columns
            if each["different"] > _AT_MOST * max(each["compared"], 1)
        }
        today = [each for each in self._record.found if named.keys() & set(each.bug.columns)]
        known = {column for each in today for column in each.bug.columns}
        self._record.false += [f"{column}: {cause} ({by})" for column, cause in named.items() if column not in known]
        for found in today:
            causes = {named.get(column) for column in found.bug.columns} - {None}
            if found.named_s is None and causes == {found.bug.cause}:
                found.named_s, found.by = self._clock.now(), by
                self._traffic.bug = None

    # Bugs, kills, online training.

    def plant(self, bug: Bug) -> None:
        """Lets a bug begin."""
        self._record.found.append(Found(bug, self._clock.now()))
        self._traffic.begin_bug(bug)

    def kill(self, kind: str) -> None:
        """Kills a server, the joiner or the ranks."""
        now, real_s = self._clock.now(), time.monotonic()
        if kind == "server":
            number = self._chance.randrange(len(self._servers))
            server = self._servers[number]
            self._record.kills.append(Kill(kind, now, real_s, number, server.starts))
            server.kill()
        elif kill_of_online(self._folder / "root", kind):
            self._record.kills.append(Kill(kind, now, real_s))

    def _start_online(self) -> None:
        file = spec.write(self._folder / "online.yaml", spec.document(**self._sections))
        words = ["online", str(file), "--base", "latest", "--source", str(self._folder / "data")]
        words += ["--root", str(self._folder / "root")]
        self._online = Program(words, self._folder / "logs" / "online.log")

    def _look_at_online(self) -> None:
        if self._online is not None and (code := self._online.code()) is not None:
            raise RuntimeError(f"online training ended with {code}:\n{self._online.said()[-4000:]}")

    def note_freshness(self) -> None:
        """Notes how old the newest event is that a server has learned from."""
        for server in self._servers:
            if server.is_ready():
                told = server.deltas()
                if told["newest_event_s_ago"] is not None:
                    self._record.lags_min.append(told["newest_event_s_ago"] / 60)
                    self._record.deltas[str(told["lineage"])] = told["delta"]
                return

    def _folders(self) -> list[str]:
        return ["--data", str(self._folder / "data"), "--root", str(self._folder / "root")]


def _summary(said: str) -> dict[str, Any]:
    [line] = [line for line in said.splitlines() if line.startswith("summary: ")]
    document: dict[str, Any] = json.loads(Path(line.removeprefix("summary: ")).read_text())
    return document

"""The story of a week: two days at random, then days on which what was served is learned from."""

import os
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.loop import books, policies, spec
from bench.loop.bugs import BUGS
from bench.loop.clock import Clock
from bench.loop.operator import Operator, Record
from bench.loop.programs import Program, Server, end_all
from bench.loop.promoting import Promoter
from bench.loop.tables import Features, Inputs, day_of, put
from bench.loop.traffic import Traffic
from bench.loop.world import HOUR_S, Size, World
from tests.e2e.user_run import wait_until

FIRST_S = 1_772_323_200
"""2026-03-01: in the past, so that no file looks old by the world's clock."""
_DAY_S = 86_400
_RANDOM_DAYS = 2
_ROWS_BEFORE = 20
_RUN_AT_S, _END_MARGIN_S = 900, 1200


@dataclass(frozen=True)
class Options:
    """How a week goes.

    Attributes:
        folder: of everything; it must be new.
        days: days after the two at random.
        hour_s: seconds of an hour.
        run_hour_s: seconds of an hour while a daily run is under way, if that is more.
        seed: of the world, the bugs and the kills.
        size: sizes of the world.
        hours: hours of each day in which requests come, from the first.
        servers: number of servers.
        online: whether the ranker is trained between the daily runs.
        shadow: whether each version but the first waits in the shadow of the live one.
        kills: whether programs are killed.
        explores: share of requests whose order is drawn.
        check_every_h: hours between two checks of skew.
        first_bug_day: first day with a bug and kills, counted from 0.
    """

    folder: Path
    days: int = 7
    hour_s: float = 60.0
    run_hour_s: float = 45.0
    seed: int = 1
    size: Size = field(default_factory=Size)
    hours: int = 24
    servers: int = 2
    online: bool = True
    shadow: bool = True
    kills: bool = True
    explores: float = 0.05
    check_every_h: int = 3
    first_bug_day: int = _RANDOM_DAYS


def online_section(hour_s: float) -> dict[str, Any]:
    """Returns the section for a pace: programs wait by the machine's clock, and windows end by the world's."""
    per_s = HOUR_S / hour_s
    joining = {
        "lateness_s": round(spec.LOG_FILE_S + 900 + 3 * per_s),
        "idle_s": max(1.0, 1800 / per_s),
        "settle_s": 0.2,
        "segment_every_s": max(0.5, 300 / per_s),
        "ahead_s": 3600,
    }
    sync = {"rows_every_s": max(1.0, 600 / per_s), "dense_every_s": max(2.0, 1200 / per_s), "full_every": 100_000}
    return {"joining": joining, "sync": sync, "checkpoint_every_s": max(5.0, 3600 / per_s)}


class Week:
    """One week."""

    def __init__(self, options: Options):
        """Makes the world, and moves the clock of all processes that are started from now on."""
        self._options, folder = options, options.folder
        (folder / "logs").mkdir(parents=True)
        self.clock = Clock(folder / "clock", FIRST_S)
        os.environ.update(self.clock.environment)
        self.world = World(options.size, options.seed, FIRST_S)
        self.features = Features(folder / "data", self.world)
        self.record = Record()
        self._chance = random.Random(options.seed)
        self.kills: list[str] = []

    def run(self) -> dict[str, Any]:
        """Lives the week; returns its report.

        Raises:
            AssertionError: the books do not agree.
        """
        try:
            return self._report(*self._live())
        finally:
            end_all()

    def _live(self) -> tuple[Traffic, Promoter]:
        options, folder = self._options, self._options.folder
        self._make_first_version()
        versions, requests = folder / "root" / "serving" / spec.NAME, folder / "data" / "requests"
        servers = [Server(folder / "logs", f"server-{n}", versions, requests) for n in range(options.servers)]
        for server in servers:
            server.wait_until_ready()
        traffic = Traffic(self.world, self.features, self.clock, folder / "data", servers)
        section = online_section(options.hour_s) if options.online else None
        operator = Operator(
            folder, self.clock, traffic, servers, self.record, seed=options.seed, online=section, shadow=options.shadow
        )
        for day in range(_RANDOM_DAYS + options.days):
            if day == _RANDOM_DAYS:
                traffic.explores = options.explores
            self._day(day, traffic, operator)
        traffic.finish()
        operator.finish()
        traffic.explores = options.explores
        self._serve_last(traffic, servers)
        return traffic, operator.promoter

    def _serve_last(self, traffic: Traffic, servers: Sequence[Server]) -> None:
        """Serves one more hour with the last version, and ends the servers."""
        live = self._options.folder / "root" / "serving" / spec.NAME
        newest = max(int(each.name) for each in live.iterdir() if each.name.isdecimal())
        for server in servers:
            server.wait_until_ready()
            wait_until(lambda server=server: server.deltas()["version"] == newest, "the last version is served", 60)
            self.record.last_versions.append(newest)
        traffic.hour(lambda: 0.0, lambda: None)
        traffic.finish()
        for server in servers:
            server.program.end()

    def _make_first_version(self) -> None:
        """Trains on a handful of rows that were shown and clicked on by chance: something must be served first."""
        folder, world, draws = self._options.folder, self.world, np.random.default_rng(self._options.seed)
        self.features.publish()
        for at_s in (FIRST_S - 2 * _DAY_S, FIRST_S - _DAY_S):
            rows: list[dict[str, Any]] = []
            for _ in range(_ROWS_BEFORE):
                inputs = self.features.inputs(world.request(FIRST_S), at_s)
                for row in _rows(inputs):
                    rows.append(row | {"shown_at": at_s, "was_shown": 1, "click": int(draws.random() < 0.5)})
            table = pa.Table.from_pylist(rows)
            put(folder / "data" / "before", "rows", at_s, {name: table[name] for name in table.column_names})
        file = spec.write(folder / "before.yaml", spec.before())
        words = ["run", str(file), "--date", day_of(FIRST_S - _DAY_S), "--data", str(folder / "data")]
        made = Program([*words, "--root", str(folder / "before")], folder / "logs" / "before.log")
        if made.wait() != 0:
            raise RuntimeError(made.said()[-4000:])
        shutil.copytree(folder / "before" / "serving", folder / "root" / "serving")

    def _day(self, day: int, traffic: Traffic, operator: Operator) -> None:
        options, start_s = self._options, self.world.hour_s
        if day >= options.first_bug_day:
            self._plan(start_s, operator, day - options.first_bug_day)
        for hour in range(24):
            is_open = hour < options.hours
            pace_s = partial(self._pace, operator, is_quick=not is_open or day < _RANDOM_DAYS)
            traffic.hour(pace_s, operator.tick, is_open=is_open)
            if options.online and is_open:
                operator.note_freshness()
        if day >= _RANDOM_DAYS - 1:
            date, kill = day_of(start_s), options.kills and day >= _RANDOM_DAYS and self._chance.random() < 0.5
            operator.at(start_s + _DAY_S + _RUN_AT_S, lambda: operator.run(date, kill=kill))

    def _pace(self, operator: Operator, *, is_quick: bool) -> float:
        if operator.is_running:
            return max(self._options.run_hour_s, self._options.hour_s)
        return 0.0 if is_quick else self._options.hour_s

    def _plan(self, start_s: int, operator: Operator, number: int) -> None:
        """Plans the bug of a day, its checks, and its kills."""
        options, hours = self._options, self._options.hours
        order = random.Random(options.seed).sample(BUGS, len(BUGS))
        bug = order[number % len(order)]
        # By turns the first check after it, or only the gate of the day's run can name it.
        share = self._chance.uniform(0.15, 0.6) if number % 2 == 0 else 1 - self._chance.uniform(0.05, 0.1)
        began_s = start_s + share * hours * HOUR_S
        operator.at(began_s, lambda: operator.plant(bug))
        for hour in range(1, hours):
            operator.at(start_s + hour * HOUR_S + 120, operator.promoter.look)
            if hour % options.check_every_h == 0:
                operator.at(start_s + hour * HOUR_S - 60, operator.check)
        if options.kills:
            kinds = ["server", *(["joiner", "rank"] if options.online else [])]
            for kind in kinds:
                at_s = start_s + self._chance.uniform(0.1, 0.95) * hours * HOUR_S
                operator.at(at_s, lambda kind=kind: operator.kill(kind))

    def _report(self, traffic: Traffic, promoter: Promoter) -> dict[str, Any]:
        folder, record, shown = self._options.folder, self.record, self._options.size.shown
        found = books.logged(folder / "data" / "requests")
        told = books.of_log(traffic.answers, traffic.failed, found, record.kills)
        expected = books.of_days(traffic.answers, found, shown)
        learned = books.compared(record.ingested, expected)
        streamed = {day for run in record.ingested for day in run["days"]["eval"]}  # All but the first base's.
        scores = policies.replayed(record.versions, traffic.answers, folder / "logs")
        return {
            "requests": told,
            "examples": learned,
            "rates": policies.rates(traffic.answers, shown, scores),
            "rates by bug": policies.rates(traffic.answers, shown, scores, policies.by_bug),
            "bugs": [_of_bug(each) for each in record.found],
            "named without a bug": record.false,
            "kills": _counted(record),
            "runs": record.runs,
            "online": books.of_online(folder / "root" / "online" / spec.NAME, found, streamed) if record.deltas else {},
            "freshness_min": _freshness(record.lags_min),
            "deltas": record.deltas,
            "promotions": [vars(each) for each in promoter.promotions],
            "looks at versions in the shadow": promoter.looks,
            "last versions": record.last_versions,
        }


def _rows(inputs: Inputs) -> list[dict[str, Any]]:
    """Returns the inputs of a request as rows of a log of candidates."""
    size, rows = len(inputs["post_id"]), []
    for place in range(size):
        row = {name: values[place if len(values) == size else 0] for name, values in inputs.items()}
        row["liked"] = [each for each in row["liked"] if each]
        del row["liked_length"]
        rows.append(row)
    return rows


def _of_bug(found: Any) -> dict[str, Any]:
    after_min = None if found.named_s is None else round((found.named_s - found.began_s) / 60)
    return {
        "day": day_of(found.began_s),
        "bug": found.bug.name,
        "columns": list(found.bug.columns),
        "cause": found.bug.cause,
        "named by": found.by,
        "named after minutes": after_min,
        "its day's run was refused": found.refused,
    }


def _freshness(lags_min: Sequence[float]) -> dict[str, float]:
    if not lags_min:
        return {}
    return {"median": float(np.median(lags_min)), "most": max(lags_min), "hours": len(lags_min)}


def _counted(record: Record) -> Mapping[str, int]:
    kinds = [kill.kind for kill in record.kills]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

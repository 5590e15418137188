"""Tables and goals of `make bench-peers`. Pure functions of its results."""

import statistics
from collections.abc import Mapping, Sequence

from bench.contest import Result
from bench.contestants import CONTESTANTS
from bench.limit import limit_of
from bench.peers.plan import APART, LIMIT, WAYS, Memory, Turn
from bench.report import Goal
from bench.results import table

_SUFFIX = {"float32": "", "bfloat16": "_bf16"}
_PEER, _LIMIT, _APART = 1.5, 0.75, 0.93
"""Goals: speed over that of the fastest peer; over the limit of a core; of two ranks over that of independent ones."""

OfRepeats = Mapping[int, float]
"""A number by repeat."""


def speed(memory: Memory, name: str, way: str) -> dict[int, float]:
    """Returns examples per second of all ranks, or of all independent trainings together, by repeat."""
    return {
        repeat: sum(result.examples_per_s for result in results)
        for repeat, results in memory.results(name, way).items()
    }


def best_peer(memory: Memory, precision: str, way: str) -> str | None:
    """Returns the peer of a precision, `auto` for any, whose median is highest; None: none was measured."""
    medians = {
        name: statistics.median(found.values())
        for name, contestant in CONTESTANTS.items()
        if contestant.is_peer and precision in ("auto", contestant.precision)
        for found in [speed(memory, name, way)]
        if found
    }
    return max(medians, key=lambda name: medians[name], default=None)


def limits(memory: Memory, precision: str, optimizer: str) -> dict[int, float]:
    """Returns the most examples per second of a rank, by repeat."""
    return {repeat: limit_of(found, precision, optimizer).examples_per_s for repeat, found in memory.limits().items()}


def goals(memory: Memory) -> list[Goal]:
    """Returns the goals whose turns were taken."""
    found: list[Goal | None] = []
    for way in ("1", "2"):
        found.append(_over(memory, "sangam_auto", best_peer(memory, "auto", way), way, _PEER))
    for precision, suffix in _SUFFIX.items():
        ours, rowwise, torchrec = f"sangam{suffix}", f"sangam_rowwise{suffix}", f"torchrec{suffix}"
        for way in ("1", "2"):
            found.append(_over(memory, ours, best_peer(memory, precision, way), way, _PEER))
        found.append(_over(memory, rowwise, torchrec, "2", _PEER))
        for name, optimizer in ((ours, "adam"), (rowwise, "rowwise_adagrad")):
            what = f"{_label(name)}, 1 rank / the limit"
            found.append(_at_least(what, speed(memory, name, "1"), limits(memory, precision, optimizer), _LIMIT))
    for name, wanted in (("sangam", _APART), ("sangam_bf16", _APART), ("sangam_stale", 0.97)):
        what = f"{_label(name)}: 2 ranks / two independent ones"
        found.append(_at_least(what, speed(memory, name, "2"), speed(memory, name, APART), wanted))
    return [goal for goal in found if goal is not None]


def speed_table(memory: Memory) -> str:
    """Returns examples per second, by contestant and way: the median, least and most of the repeats."""
    names = [name for name in CONTESTANTS if any(memory.results(name, way) for way in WAYS)]
    rows = []
    for name in names:
        rows.append([_label(name)])
        for way in WAYS:
            found = list(speed(memory, name, way).values())
            steps = [result for results in memory.results(name, way).values() for result in results]
            rows[-1].append(_cell(found, steps))
    return table(["examples/s (least–most); ms a step", "1 rank", "2 ranks", "two of 1 rank", "4 ranks"], rows)


def limit_table(memory: Memory) -> str:
    """Returns the limit of a rank and its parts."""
    rows = []
    for precision in _SUFFIX:
        for optimizer in ("adam", "rowwise_adagrad"):
            of = [limit_of(found, precision, optimizer) for found in memory.limits().values()]
            if of:
                dense_ms, rows_ms = (statistics.median(parts) * 1e3 for parts in zip(*of, strict=True))
                speeds = [each.examples_per_s for each in of]
                rows.append([f"{precision}, {optimizer}", f"{dense_ms:.1f}", f"{rows_ms:.1f}", _cell(speeds, [])])
    return table(["limit of a rank", "products, ms", "rows, ms", "examples/s"], rows)


def line(memory: Memory, turn: Turn) -> str:
    """Returns the result of a turn, in a line."""
    if turn.name == LIMIT:
        found = memory.limits()[turn.repeat]
        of = {precision: limit_of(found, precision, "adam") for precision in _SUFFIX}
        return ", ".join(
            f"{precision} {limit.dense_s * 1e3:.1f} + {limit.rows_s * 1e3:.1f} ms" for precision, limit in of.items()
        )
    results = memory.results(turn.name, turn.way)[turn.repeat]
    return ", ".join(f"{result.median_s * 1e3:.1f} ms" for result in results) + f" a step in {results[0].precision}"


def _over(memory: Memory, ours: str, rival: str | None, way: str, wanted: float) -> Goal | None:
    if rival is None:
        return None
    what = f"{_label(ours)} / {_label(rival)}, {_ranks(way)}"
    return _at_least(what, speed(memory, ours, way), speed(memory, rival, way), wanted)


def _at_least(what: str, above: OfRepeats, below: OfRepeats, wanted: float) -> Goal | None:
    ratios = [above[repeat] / below[repeat] for repeat in above if repeat in below]
    if not ratios:
        return None
    return Goal(what, statistics.median(ratios), wanted, spread=(min(ratios), max(ratios)))


def _cell(found: Sequence[float], steps: Sequence[Result]) -> str:
    if not found:
        return "–"
    spread = f" ({min(found):,.0f}–{max(found):,.0f})" if len(found) > 1 else ""
    step = f"; {statistics.median(result.median_s for result in steps) * 1e3:.1f}" if steps else ""
    return f"{statistics.median(found):,.0f}{spread}{step}"


def _label(name: str) -> str:
    return CONTESTANTS[name].label


def _ranks(way: str) -> str:
    return "1 rank" if way == "1" else f"{way} ranks"

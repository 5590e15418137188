"""What the benchmarks print, and what they must reach. Pure functions of their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.contest import Ratio, Result, ratio
from bench.contestants import CONTESTANTS
from bench.stages import STAGES

Runs = Mapping[str, Mapping[int, Sequence[Result]]]
"""Results by contestant and number of ranks, one for each repeat."""


@dataclass(frozen=True)
class Goal:
    """A number that is to be reached.

    Attributes:
        what: in words.
        measured: the number; the median where there are several.
        wanted: at least, or at most.
        is_ceiling: whether `wanted` is the most allowed.
        spread: least and most over the repeats, where there are several.
    """

    what: str
    measured: float
    wanted: float
    is_ceiling: bool = False
    spread: tuple[float, float] | None = None

    @property
    def is_met(self) -> bool:
        """Whether it is reached."""
        return self.measured <= self.wanted if self.is_ceiling else self.measured >= self.wanted


def speed_goals(runs: Runs) -> list[Goal]:
    """Returns what is wanted of the speed, with what came of it."""
    goals = []
    for ours, rival, wanted in (
        ("sangam", "tfra", 1.3),
        ("sangam", "tfra_tables", 1.5),
        ("sangam_bf16", "tfra", 2.0),
    ):
        for ranks in (1, 2):
            what = f"{CONTESTANTS[ours].label} / {CONTESTANTS[rival].label}, {_ranks(ranks)}"
            goals.append(_at_least(what, ratio(runs[ours][ranks], runs[rival][ranks]), wanted))
    goals.append(_at_least("Sangam, float32: 2 ranks / 1 rank", ratio(runs["sangam"][2], runs["sangam"][1]), 1.55))
    return goals


def scale_goals(scale: Sequence[Mapping[str, Any]], restored: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """Returns what is wanted of many rows, with what came of it."""
    least, most = scale[0], scale[-1]
    growth = most["step_s"] / least["step_s"]
    goals = [Goal(f"step over {_count(most['rows'])} rows / {_count(least['rows'])} rows", growth, 1.5, True)]
    ideal = most["ideal_bytes_per_row"]
    for how, tables in (("grown to", scale), ("restored", restored)):
        for held in tables:
            if held["bytes_per_row"] is not None:
                what = f"memory of a row / ideal, {how} {_count(held['rows'])} rows"
                goals.append(Goal(what, held["bytes_per_row"] / ideal, 1.6, True))
    for size, back in zip(scale[-len(restored) :], restored, strict=True):
        for what, seconds in (
            ("checkpoint, copied and written", size["copy_s"] + size["write_s"]),
            ("checkpoint, read and restored", back["restore_s"]),
        ):
            goals.append(
                Goal(f"{what}, {_count(back['rows'])} rows: million rows/s", back["rows"] / seconds / 1e6, 1.0)
            )
    return goals


def eviction_goal(found: Mapping[str, float]) -> Goal:
    """Returns what is wanted of an eviction."""
    what = f"eviction of {_count(found['rows'])} rows in {found['tables']} tables, one core: s"
    return Goal(what, found["evict_s"], 2.0, True)


def precision_goal(found: Sequence[Mapping[str, Mapping[str, float]]]) -> Goal:
    """Returns what is wanted of bfloat16's AUC: the mean over tasks and seeds, float32's less bfloat16's."""
    losses = [_mean(of_seed["float32"].values()) - _mean(of_seed["bfloat16"].values()) for of_seed in found]
    mean = _mean(losses)
    return Goal("AUC lost to bfloat16, mean over tasks and seeds", mean, 0.001, True, (min(losses), max(losses)))


def speed_table(runs: Runs) -> str:
    """Returns examples per second and milliseconds a step, by contestant and number of ranks."""
    rows = []
    for name, by_ranks in runs.items():
        cells = [CONTESTANTS[name].label]
        for ranks in (1, 2):
            results = by_ranks[ranks]
            middle = sorted(results, key=lambda result: result.median_s)[(len(results) - 1) // 2]
            times = "–".join(f"{edge(result.median_s for result in results) * 1e3:.0f}" for edge in (min, max))
            cells += [f"{middle.examples_per_s:,.0f}", f"{middle.median_s * 1e3:.1f} ({times})"]
        rows.append(cells)
    header = ["", "1 rank, examples/s", "ms a step", "2 ranks, examples/s", "ms a step"]
    return table(header, rows)


def stage_table(
    stages: Mapping[str, Mapping[str, float]], input_ms: float, eviction: Mapping[str, float], evict_every_steps: int
) -> str:
    """Returns milliseconds by stage; a column for each profiled run. An eviction's are its share of one step."""
    names = [*STAGES, *(name for name in next(iter(stages.values())) if name not in STAGES)]
    rows = [[name, *(f"{of_run[name]:.1f}" for of_run in stages.values())] for name in names]
    rows.append(["the step", *(f"{sum(of_run.values()):.1f}" for of_run in stages.values())])
    rows.append(["input: a batch from TFRecord, apart", *[f"{input_ms:.1f}"] * len(stages)])
    evicted = f"{_count(eviction['rows'])} rows in {eviction['tables']} tables, every {evict_every_steps:,} steps"
    evict_ms = eviction["evict_s"] * 1e3 / evict_every_steps
    rows.append([f"eviction: {evicted}, apart", *[f"{evict_ms:.1f}"] * len(stages)])
    return table(["ms", *stages], rows)


def scale_table(scale: Sequence[Mapping[str, Any]], restored: Sequence[Mapping[str, Any]]) -> str:
    """Returns what rows cost."""
    back_of = {back["rows"]: back for back in restored}
    rows = []
    for size in scale:
        back = back_of.get(size["rows"])
        cells = [_count(size["rows"]), f"{size['step_s'] * 1e3:.1f}", _whole(size["bytes_per_row"])]
        if back:
            seconds = (size["copy_s"], size["write_s"], back["restore_s"])
            cells += [f"{back['bytes_per_row']:.0f}", *(f"{back['rows'] / s / 1e6:.2f}" for s in seconds)]
            cells.append(f"{back['read_bytes_per_row']:.0f}")
        rows.append(cells + ["–"] * (8 - len(cells)))
    header = ["rows", "ms a step", "bytes a row, grown", "restored", "M rows/s: copied", "written", "restored"]
    header.append("bytes a row, read")
    return table(header, rows)


def export_table(restored: Sequence[Mapping[str, Any]]) -> str:
    """Returns how long exports of what has changed take."""
    rows = [
        [_count(back["rows"]), f"{export['touched']:,}", f"{export['seconds'] * 1e3:.1f}"]
        for back in restored
        for export in back["exports"]
    ]
    return table(["rows", "touched since the last export", "ms"], rows)


def precision_table(found: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    """Returns the AUC of both precisions by seed."""
    rows = [
        [str(seed), *(f"{_mean(of_seed[precision].values()):.5f}" for precision in ("float32", "bfloat16"))]
        for seed, of_seed in enumerate(found)
    ]
    return table(["seed", "float32: AUC, mean over tasks", "bfloat16"], rows)


def goal_table(goals: Sequence[Goal]) -> str:
    """Returns every goal, what was measured, and whether that is enough."""
    rows = []
    for goal in goals:
        digits = 4 if goal.wanted < 0.1 else 2
        spread = "–".join(f"{edge:.{digits}f}" for edge in goal.spread) if goal.spread else ""
        wanted = f"{'≤' if goal.is_ceiling else '≥'} {goal.wanted:g}"
        rows.append([goal.what, f"{goal.measured:.{digits}f}", spread, wanted, "met" if goal.is_met else "missed"])
    return table(["", "measured", "least–most", "wanted", ""], rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _at_least(what: str, found: Ratio, wanted: float) -> Goal:
    return Goal(what, found.median, wanted, spread=(found.least, found.most))


def _mean(values: Any) -> float:
    values = list(values)
    return sum(values) / len(values)


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _ranks(ranks: int) -> str:
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def _count(rows: float) -> str:
    return f"{rows / 1e6:.3g} M"

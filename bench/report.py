"""Tables and goals of `make bench`. Pure functions of its results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.results import table


@dataclass(frozen=True)
class Goal:
    """A measured number and its bound.

    Attributes:
        what: description of the number.
        measured: the number; the median of several.
        wanted: lower bound, or upper bound.
        is_ceiling: whether `wanted` is an upper bound.
        spread: least and most of the repeats.
    """

    what: str
    measured: float
    wanted: float
    is_ceiling: bool = False
    spread: tuple[float, float] | None = None

    @property
    def is_met(self) -> bool:
        """Whether the number is within its bound."""
        return self.measured <= self.wanted if self.is_ceiling else self.measured >= self.wanted


def scale_goals(scale: Sequence[Mapping[str, Any]], restored: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """Returns the goals of tables with many rows."""
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
            ("checkpoint, written", size["write_s"]),
            ("checkpoint, read and restored", back["restore_s"]),
        ):
            goals.append(
                Goal(f"{what}, {_count(back['rows'])} rows: million rows/s", back["rows"] / seconds / 1e6, 1.0)
            )
    return goals


def eviction_goal(found: Mapping[str, float]) -> Goal:
    """Returns the goal of an eviction."""
    what = f"eviction of {_count(found['rows'])} rows in {found['tables']} tables, one core: s"
    return Goal(what, found["evict_s"], 2.0, True)


def precision_goal(found: Sequence[Mapping[str, Mapping[str, float]]]) -> Goal:
    """Returns the goal of bfloat16: float32's AUC less bfloat16's, mean over tasks and seeds."""
    losses = [_mean(of_seed["float32"].values()) - _mean(of_seed["bfloat16"].values()) for of_seed in found]
    mean = _mean(losses)
    return Goal("AUC lost to bfloat16, mean over tasks and seeds", mean, 0.001, True, (min(losses), max(losses)))


def scale_table(scale: Sequence[Mapping[str, Any]], restored: Sequence[Mapping[str, Any]]) -> str:
    """Returns time and memory by number of rows."""
    back_of = {back["rows"]: back for back in restored}
    rows = []
    for size in scale:
        back = back_of.get(size["rows"])
        cells = [_count(size["rows"]), f"{size['step_s'] * 1e3:.1f}", _whole(size["bytes_per_row"])]
        if back:
            seconds = (size["write_s"], back["restore_s"])
            cells += [f"{back['bytes_per_row']:.0f}", *(f"{back['rows'] / s / 1e6:.2f}" for s in seconds)]
            cells.append(f"{back['read_bytes_per_row']:.0f}")
        rows.append(cells + ["–"] * (7 - len(cells)))
    header = ["rows", "ms a step", "bytes a row, grown", "restored", "M rows/s: written", "restored"]
    header.append("bytes a row, read")
    return table(header, rows)


def export_table(restored: Sequence[Mapping[str, Any]]) -> str:
    """Returns milliseconds of delta exports."""
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
    """Returns every goal, its measured number, and whether it is met."""
    rows = []
    for goal in goals:
        digits = 4 if goal.wanted < 0.1 else 2
        spread = "–".join(f"{edge:.{digits}f}" for edge in goal.spread) if goal.spread else ""
        wanted = f"{'≤' if goal.is_ceiling else '≥'} {goal.wanted:g}"
        rows.append([goal.what, f"{goal.measured:.{digits}f}", spread, wanted, "met" if goal.is_met else "missed"])
    return table(["", "measured", "least–most", "wanted", ""], rows)


def _mean(values: Any) -> float:
    values = list(values)
    return sum(values) / len(values)


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _count(rows: float) -> str:
    return f"{rows / 1e6:.3g} M"

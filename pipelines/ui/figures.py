"""Charts of the pages `compare`, `searches` and `backfills` in the report's style: first run blue, second amber."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sangam.components.page.charts import BAD, FIRST, GOOD, MUTED, SECOND, Chart, smooth
from sangam.components.reports.curves import Curve

_OLD, _NEW = "A", "B"


def roc_of_two(task: str, old: Curve | None, new: Curve | None) -> Markup:
    """Returns the ROC curves of both runs."""
    chart = Chart(f"ROC curves of {task} in both runs", x="false positive rate", y="true positive rate")
    with chart as axes:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=":")
        for curve, color, name in ((old, FIRST, _OLD), (new, SECOND, _NEW)):
            if curve is not None:
                axes.plot(curve.false_positive_rate, curve.true_positive_rate, color=color, label=name)
        _finish(axes, f"{task}: ROC", "lower right")
    return chart.svg


def loss_of_two(task: str, old: Sequence[float], new: Sequence[float]) -> Markup:
    """Returns the training losses of both runs by step."""
    chart = Chart(f"Training loss of {task} by step in both runs", x="step", y="loss")
    with chart as axes:
        for losses, color, name in ((old, FIRST, _OLD), (new, SECOND, _NEW)):
            if len(losses):
                axes.plot(*smooth(losses), color=color, label=name)
        _finish(axes, f"{task}: training loss", "upper right")
    return chart.svg


def validation_of_two(what: str, old: Sequence[float | None], new: Sequence[float | None]) -> Markup:
    """Returns a metric of the validation split of both runs by epoch."""
    chart = Chart(f"Validation {what} by epoch in both runs", x="epoch", y=what.rpartition(" ")[2])
    with chart as axes:
        for values, color, name in ((old, FIRST, _OLD), (new, SECOND, _NEW)):
            known = [np.nan if value is None else value for value in values]
            axes.plot(range(1, len(known) + 1), known, color=color, marker="o", markersize=3, label=name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        _finish(axes, f"{what}: validation", "best")
    return chart.svg


def trials(points: Sequence[tuple[int, float, str]], best: Sequence[tuple[int, float]], objective: str) -> Markup:
    """Returns the objective by trial (points: number, value, state), and the best value so far."""
    chart = Chart(f"{objective} by trial, and the best so far", x="trial", y=objective, width=4.2, height=2.1)
    with chart as axes:
        for state, color, fill in (("done", FIRST, FIRST), ("pruned", MUTED, "none")):
            chosen = [(number, value) for number, value, its in points if its == state]
            if chosen:
                axes.plot(*zip(*chosen, strict=True), "o", color=color, mfc=fill, markersize=4, label=state)
        if best:
            axes.step(*zip(*best, strict=True), where="post", color=GOOD, linewidth=1.4, label="best so far")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.margins(y=0.15)
        _finish(axes, "All trials", "best")
    return chart.svg


def by_day(task: str, points: Sequence[tuple[str, float, bool]], metric: str) -> Markup:
    """Returns a task's metric by day (points: day, value, whether the model was blessed)."""
    chart = Chart(f"{metric} of {task} by day", y=metric, width=3.6, height=1.9)
    with chart as axes:
        axes.plot(range(len(points)), [value for _, value, _ in points], color=MUTED, linewidth=0.8)
        for at, (_, value, is_blessed) in enumerate(points):
            color = FIRST if is_blessed else BAD
            axes.plot([at], [value], "o", markersize=4, color=color, mfc=color if is_blessed else "none")
        shown = range(0, len(points), max(1, -(-len(points) // 6)))
        axes.set_xticks(list(shown), [points[at][0][5:] for at in shown])
        axes.margins(y=0.25)
        axes.set_title(task, loc="left")
    return chart.svg


def _finish(axes: Axes, title: str, place: Literal["lower right", "upper right", "best"]) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc=place)
    axes.set_title(title, loc="left")

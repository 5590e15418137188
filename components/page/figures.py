"""The charts of a run's page."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from sangam.components.page.charts import BAD, FIRST, INK, MUTED, SECOND, Chart, smooth
from sangam.components.page.facts import Distribution, FeatureFacts
from sangam.components.record.run import RunRecord
from sangam.components.reports.curves import Curve
from sangam.components.reports.evaluation import CalibrationBucket
from sangam.components.reports.headline import Headline

SHADE = 0.4
"""Opacity of the train split, in charts and in their legend."""


def roc(task: str, curve: Curve, auc: float | None) -> Markup:
    """Returns the ROC curve."""
    chart = Chart(f"ROC curve of {task}, AUC {_short(auc)}", x="false positive rate", y="true positive rate")
    with chart as axes:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=":")
        axes.plot(curve.false_positive_rate, curve.true_positive_rate, color=FIRST)
        axes.set_title("ROC", loc="left")
    return chart.svg


def precision_recall(task: str, curve: Curve, rate: float | None) -> Markup:
    """Returns the precision-recall curve, with the share of positives, the precision of a random model."""
    chart = Chart(f"Precision-recall curve of {task}", x="recall", y="precision")
    with chart as axes:
        if rate is not None:
            axes.axhline(rate, color=MUTED, linewidth=0.8, linestyle=":")
        axes.plot(curve.true_positive_rate, curve.precision, color=FIRST)
        axes.set_title("Precision and recall", loc="left")
        axes.set_ylim(bottom=0)
    return chart.svg


def calibration(task: str, buckets: Sequence[CalibrationBucket]) -> Markup:
    """Returns the mean label over the mean prediction, by tenths of the examples."""
    chart = Chart(f"Calibration of {task} by tenths of the examples", x="mean prediction", y="mean label")
    predicted, observed = [each.mean_prediction for each in buckets], [each.mean_label for each in buckets]
    most = max([*predicted, *observed, 1e-9])
    with chart as axes:
        axes.plot([0, most], [0, most], color=MUTED, linewidth=0.8, linestyle=":")
        axes.plot(predicted, observed, color=FIRST, marker="o", markersize=3)
        axes.set_title("Calibration", loc="left")
    return chart.svg


def scores(task: str, curve: Curve) -> Markup:
    """Returns the distributions of both classes' scores."""
    chart = Chart(f"Scores of {task} by label", x="score", y="share of the class")
    with chart as axes:
        for counts, color, name in ((curve.negatives, MUTED, "label 0"), (curve.positives, FIRST, "label 1")):
            shares = np.asarray(counts) / max(sum(counts), 1)
            axes.stairs(shares, curve.score_edges, color=color, label=name, fill=False, linewidth=1.2)
        axes.set_xscale("logit", one_half="0.5")
        axes.xaxis.set_minor_formatter("")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.legend(loc="upper left")
        axes.set_title("Scores", loc="left")
    return chart.svg


def history(task: str, main: Headline, past: Sequence[RunRecord], date: str) -> Markup:
    """Returns the main metric of this run and the days before, with its bound; hollow points are refused models."""
    chart = Chart(f"{main.metric} of {task} over the last days", y=main.metric, width=4.2, height=1.6)
    known = [
        (run.date or run.run, run.tasks[task].metrics.get(main.metric), bool(run.blessed))
        for run in past
        if task in run.tasks
    ]
    points = [(day, value, blessed) for day, value, blessed in [*known, (date, main.value, True)] if value is not None]
    with chart as axes:
        x = range(len(points))
        axes.plot(x, [value for _, value, _ in points], color=MUTED, linewidth=0.8)
        for at, (_, value, blessed) in enumerate(points):
            is_now = at == len(points) - 1
            color = FIRST if is_now else INK
            axes.plot(
                [at], [value], marker="o", markersize=5 if is_now else 3, color=color, mfc=color if blessed else "none"
            )
        if main.bound is not None:
            axes.axhline(main.bound, color=BAD, linewidth=0.8, linestyle="--")
        _date_ticks(axes, [date for date, _, _ in points])
        axes.margins(y=0.25)
    return chart.svg


def metric_by_day(task: str, metric: str, points: Sequence[tuple[str, float, float | None, str]]) -> Markup:
    """Returns a task's metric by day with its bound: date, value, bound, outcome of the run."""
    chart = Chart(f"{metric} of {task} by day", y=metric, width=3.6, height=2.0)
    x = range(len(points))
    with chart as axes:
        axes.plot(x, [value for _, value, _, _ in points], color=MUTED, linewidth=0.8)
        bounds = [np.nan if bound is None else bound for _, _, bound, _ in points]
        if len(points) == 1 and points[0][2] is not None:
            axes.axhline(points[0][2], color=BAD, linewidth=0.8, linestyle="--")
        axes.step(x, bounds, where="mid", color=BAD, linewidth=0.8, linestyle="--")
        for at, (_, value, _, outcome) in enumerate(points):
            marker = "x" if outcome == "rolled back" else "o"
            color = BAD if outcome in ("rolled back", "refused") else FIRST
            axes.plot(
                [at], [value], marker=marker, markersize=4, color=color, mfc=color if outcome == "pushed" else "none"
            )
        _date_ticks(axes, [date for date, *_ in points])
        axes.set_title(task, loc="left")
        axes.margins(y=0.2)
    return chart.svg


def seconds_by_day(points: Sequence[tuple[str, dict[str, float]]]) -> Markup:
    """Returns the time of each run by step; all but the four longest steps are summed."""
    totals: Counter[str] = Counter()
    for _, seconds in points:
        totals.update(seconds)
    longest = [step for step, _ in totals.most_common(4)]
    unit, of_unit = ("minutes", 60.0) if max(sum(seconds.values()) for _, seconds in points) > 180 else ("seconds", 1.0)
    chart = Chart(f"Time of each run by step in {unit}", y=unit, width=3.6, height=2.0)
    x, bottom = np.arange(len(points)), np.zeros(len(points))
    with chart as axes:
        tints = ((FIRST, 1.0), (FIRST, 0.5), (SECOND, 1.0), (SECOND, 0.5), (MUTED, 0.6))
        for step, (color, alpha) in zip([*longest, "the rest"], tints[: len(longest)] + tints[-1:], strict=True):
            height = np.array([_seconds(seconds, step, longest) for _, seconds in points]) / of_unit
            axes.bar(x, height, 0.8, bottom=bottom, color=color, alpha=alpha, label=step)
            bottom += height
        _date_ticks(axes, [date for date, _ in points])
        axes.set_ylim(top=1.8 * max([*bottom, 1e-6]))
        axes.legend(loc="upper left", ncol=2)
        axes.set_title("time by step", loc="left")
    return chart.svg


def _seconds(seconds: dict[str, float], step: str, longest: Sequence[str]) -> float:
    if step in longest:
        return seconds.get(step, 0.0)
    return sum(each for name, each in seconds.items() if name not in longest)


def _date_ticks(axes: Axes, dates: Sequence[str]) -> None:
    shown = range(0, len(dates), max(1, -(-len(dates) // 6)))
    axes.set_xticks(list(shown), [dates[at][5:] for at in shown])


def loss(task: str, losses: Sequence[float], epochs: Sequence[int]) -> Markup:
    """Returns a task's training loss by step, with a line at the end of each epoch."""
    chart = Chart(f"Training loss of {task} by step", x="step", y="loss")
    with chart as axes:
        for end in epochs[:-1]:
            axes.axvline(end, color=MUTED, linewidth=0.6, linestyle=":")
        axes.plot(*smooth(losses), color=FIRST)
        axes.set_title(task, loc="left")
    return chart.svg


def rates(steps: Sequence[int], by_name: dict[str, Sequence[float]]) -> Markup:
    """Returns the learning rates by step."""
    chart = Chart("Learning rates by step", x="step", y=" ")
    with chart as axes:
        for (name, values), color in zip(by_name.items(), (FIRST, SECOND), strict=False):
            axes.plot(steps, values, color=color, label=name)
        axes.set_yscale("log")
        axes.minorticks_off()
        ends = sorted({end for values in by_name.values() for end in (min(values), max(values)) if end > 0})
        apart = [end for place, end in enumerate(ends) if not place or end > 1.3 * ends[place - 1]]
        axes.set_yticks(apart, [f"{end:.2g}" for end in apart])
        axes.legend()
        axes.set_title("learning rate", loc="left")
    return chart.svg


def norms(table: str, counts: Sequence[int]) -> Markup:
    """Returns the distribution of a table's rows by Euclidean norm."""
    chart = Chart(f"Rows of {table} by norm", x="norm", width=2.1, height=1.5)
    with chart as axes:
        axes.stairs(counts, np.logspace(-3, 2, len(counts) + 1), color=FIRST, fill=True)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.minorticks_off()  # Minor ticks take longer than the rest of the chart.
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.set_title(table, loc="left")
    return chart.svg


def feature(facts: FeatureFacts) -> Markup:
    """Returns the shares of a feature's values in both splits."""
    assert facts.distribution is not None
    shown = facts.distribution
    title = f"Values of {facts.name} in the train and the evaluation split"
    return _of_numbers(title, shown) if shown.is_number and len(shown.labels) > 1 else _of_values(title, shown)


def _of_numbers(title: str, shown: Distribution) -> Markup:
    chart, last = Chart(title, width=2.1, height=1.3), len(shown.labels)
    with chart as axes:
        axes.stairs(shown.train, np.arange(last + 1), color=MUTED, fill=True, alpha=SHADE)
        axes.stairs(shown.evaluated, np.arange(last + 1), color=FIRST, linewidth=1.2)
        axes.set_xticks([0, last], [_cut(shown.labels[0]), f"> {_cut(shown.labels[-1])}"])
        first, end = axes.get_xticklabels()
        first.set_horizontalalignment("left")
        end.set_horizontalalignment("right")
        _bare(axes)
        axes.set_ylim(bottom=0)
    return chart.svg


def _of_values(title: str, shown: Distribution) -> Markup:
    """Returns horizontal bars, each beside its value; keys of 64 bits, which nobody can read, are numbered."""
    labels = [f"id {place}" if _is_key(label) else _cut(label) for place, label in enumerate(shown.labels, start=1)]
    chart, at = Chart(title, width=2.1, height=0.45 + 0.16 * len(labels)), np.arange(len(labels))
    with chart as axes:
        axes.barh(at - 0.2, shown.train, 0.4, color=MUTED, alpha=SHADE)
        axes.barh(at + 0.2, shown.evaluated, 0.4, color=FIRST)
        axes.set_position((0.34, 0.06, 0.63, 0.88))
        axes.set_xticks([])
        axes.set_yticks(at, labels)
        axes.invert_yaxis()
        axes.grid(visible=False)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
    return chart.svg


def _bare(axes: Axes) -> None:
    axes.grid(visible=False)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _is_key(label: str) -> bool:
    return len(label) > 12 and label.lstrip("-").isdigit()


def _cut(text: str, most: int = 14) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _short(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"

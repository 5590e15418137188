"""The report of a week: tables in Markdown, and a picture of the click rates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bench.loop.policies import POLICIES
from bench.results import table

_SHOWN = {
    "random": "random order",
    "popularity": "clicks so far",
    "frozen": "first model, frozen",
    "daily": "daily models",
    "served": "the loop, as served",
    "oracle": "oracle",
}
"""Policies as the tables and the picture call them."""
_COLORS = {
    "random": "#9aa3af",
    "popularity": "#6b7280",
    "frozen": "#b45309",
    "daily": "#2563eb",
    "served": "#15803d",
    "oracle": "#111827",
}


def markdown(report: Mapping[str, Any]) -> str:
    """Returns the tables."""
    parts = [_rates(report["rates"]), _books(report), _bugs(report["bugs"]), _promotions(report["promotions"])]
    return "\n\n".join([*parts, _other(report)]) + "\n"


def _rates(rates: Mapping[str, Mapping[str, float]]) -> str:
    names = [name for name in POLICIES if any(name in of_day for of_day in rates.values())]
    rows = [[day, *(_rate(of_day.get(name)) for name in names)] for day, of_day in rates.items()]
    means = [sum(of_day.get(name, 0.0) for of_day in rates.values()) / len(rates) for name in names]
    return table(["day", *(_SHOWN[name] for name in names)], [*rows, ["mean", *map(_rate, means)]])


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _books(report: Mapping[str, Any]) -> str:
    requests = [[name, f"{number:,}"] for name, number in report["requests"].items()]
    days = [
        [day, *(f"{of_day[name]:,}" for name in ("rows", "shown", "clicks"))]
        for day, of_day in report["examples"].items()
    ]
    learned = table(["day", "candidates logged and learned", "views joined", "clicks joined"], days)
    return f"{table(['requests', 'number'], requests)}\n\n{learned}"


def _bugs(bugs: list[dict[str, Any]]) -> str:
    rows = [
        [
            each["day"],
            each["bug"],
            ", ".join(each["columns"]),
            each["cause"],
            f"{each['named by'] or 'nothing'}, after {each['named after minutes']} min",
        ]
        for each in bugs
    ]
    return table(["day", "planted bug", "columns named", "cause named", "by"], rows)


def _promotions(promotions: list[dict[str, Any]]) -> str:
    rows = []
    for each in promotions:
        auc = each["auc"]
        of_auc = (
            f"{auc['live']:.4f}, {auc['difference']:+.4f} ({auc['lower']:+.4f} to {auc['upper']:+.4f})" if auc else "-"
        )
        rows.append([each["version"], f"{each['decision']}, after {each['hours']} h", of_auc])
    return table(["version in the shadow", "decision", "AUC of the live one, difference, always-valid interval"], rows)


def _other(report: Mapping[str, Any]) -> str:
    kills = ", ".join(f"{kind} {number}" for kind, number in report["kills"].items()) or "none"
    lags, online = report["freshness_min"], report["online"]
    of_lags = f"{lags['median']:.0f}, {lags['most']:.0f}" if lags else "no deltas"
    of_bug = {name: f"{of['served']:.4f} of {of['oracle']:.4f}" for name, of in report["rates by bug"].items()}
    rows = [
        ["kills (SIGKILL)", kills],
        ["deltas", f"{sum(report['deltas'].values()):,}"],
        ["minutes since the newest event that was served had happened, median and most", of_lags],
        ["click rate served, and the oracle's, while inputs were right", of_bug.get("without", "-")],
        ["the same while they were wrong", of_bug.get("with a bug", "-")],
        *([name, f"{number:,}"] for name, number in online.items()),
        ["daily runs, refused of them", f"{len(report['runs'])}, {sum(run['code'] == 3 for run in report['runs'])}"],
    ]
    return table(["what else", ""], rows)


def draw(rates: Mapping[str, Mapping[str, float]], file: Path) -> None:
    """Draws the click rates by day as an SVG."""
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "loop", "font.size": 9}):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        axes = figure.add_subplot()
        days = list(rates)
        for name in POLICIES:
            values = [of_day.get(name, float("nan")) for of_day in rates.values()]
            width = 2.2 if name == "served" else 1.2
            axes.plot(range(len(days)), values, label=_SHOWN[name], color=_COLORS[name], linewidth=width, marker=".")
        axes.set_xticks(range(len(days)), [f"day {number + 1}" for number in range(len(days))])
        axes.set_ylabel("clicks per shown post")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right center", frameon=False, reverse=True)
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})  # type: ignore[no-untyped-call]

"""A plot of a search: its history, and the objective against each range."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sangam.pipelines.tune.records import Objective, Trial, best_of
from sangam.schemas.spec.tuning import Choice, Range, Together

_PANELS_A_ROW = 3
_LABEL_LETTERS = 24
_COLORS = {"done": "tab:blue", "pruned": "tab:gray", "best": "tab:red"}


def draw_trials(path: Path, trials: Sequence[Trial], objective: Objective, ranges: Mapping[str, Range]) -> Path:
    """Draws all trials with a value as a PNG; returns the file's path."""
    measured = [trial for trial in trials if trial.objective is not None]
    rows = -(-(1 + len(ranges)) // _PANELS_A_ROW)
    figure = Figure(figsize=(4.2 * _PANELS_A_ROW, 3.4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, _PANELS_A_ROW, squeeze=False).ravel()
    _history(panels[0], measured, objective)
    for panel, (key, searched) in zip(panels[1:], ranges.items(), strict=False):
        _slice(panel, measured, objective, key, searched)
    for panel in panels[1 + len(ranges) :]:
        panel.set_visible(False)
    failed = sum(trial.state == "failed" for trial in trials)
    figure.suptitle(f"{len(trials)} trials" + (f", of them {failed} failed" if failed else ""), fontsize=10)
    written = path.with_name(f".{os.getpid()}.{path.name}")
    figure.savefig(written, dpi=110)
    written.replace(path)
    return path


def _history(panel: Axes, trials: Sequence[Trial], objective: Objective) -> None:
    _points(panel, trials, objective, [float(trial.number) for trial in trials])
    done = [trial for trial in trials if trial.state == "done"]
    found = [best_of(done[: count + 1], objective) for count in range(len(done))]
    so_far = [best.objective for best in found if best and best.objective is not None]
    panel.step([trial.number for trial in done], so_far, where="post", color=_COLORS["best"], label="best so far")
    for own in (trial for trial in done if trial.is_spec and trial.objective is not None):
        panel.axhline(own.objective or 0.0, color="black", linewidth=0.8, linestyle="--", label="the spec as it is")
    panel.set_xlabel("trial")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_ylabel(f"{objective.name}, validation")
    panel.legend(fontsize=7)


def _slice(panel: Axes, trials: Sequence[Trial], objective: Objective, key: str, searched: Range) -> None:
    trials = [trial for trial in trials if key in trial.values]
    if isinstance(searched, Choice | Together):
        choices = [json.dumps(value, sort_keys=True) for value in searched.values]
        where = [float(choices.index(json.dumps(trial.values[key], sort_keys=True))) for trial in trials]
        labels = [text if len(text) <= _LABEL_LETTERS else f"{text[: _LABEL_LETTERS - 1]}…" for text in choices]
        panel.set_xticks(range(len(labels)), labels, fontsize=7, rotation=20, ha="right", parse_math=False)
        panel.set_xlim(-0.5, len(labels) - 0.5)
    else:
        where = [float(trial.values[key]) for trial in trials]
        if searched.log:
            panel.set_xscale("log")
    _points(panel, trials, objective, where)
    panel.set_xlabel(key, fontsize=8)


def _points(panel: Axes, trials: Sequence[Trial], objective: Objective, where: Sequence[float]) -> None:
    best = best_of(trials, objective)
    for state in ("pruned", "done"):
        chosen = [(x, trial.objective or 0.0) for x, trial in zip(where, trials, strict=True) if trial.state == state]
        if chosen:
            panel.scatter([x for x, _ in chosen], [y for _, y in chosen], s=16, color=_COLORS[state], label=state)
    for x, trial in zip(where, trials, strict=True):
        if trial is best and trial.objective is not None:
            panel.scatter([x], [trial.objective], s=50, color=_COLORS["best"], marker="*", zorder=3, label="best")
    panel.tick_params(labelsize=7)

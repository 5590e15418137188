"""The plot of a search."""

from pathlib import Path

from sangam.pipelines.tune.plot import draw_trials
from sangam.pipelines.tune.records import Objective, Trial
from sangam.schemas.spec.tuning import Choice


def test_a_choice_is_no_formula(tmp_path: Path) -> None:
    value = "$x^$"
    ranges = {"features.price.column": Choice(kind="choice", values=(value, "b"))}
    trials = [Trial(0, "done", {"features.price.column": value}, objective=0.5)]
    drawn = draw_trials(tmp_path / "trials.png", trials, Objective(("like",), "auc"), ranges)
    assert drawn.read_bytes().startswith(b"\x89PNG")

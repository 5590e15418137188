"""The part of a run's page on the permutation importance of the columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from sangam.components.page.charts import FIRST, INK, MUTED, Chart
from sangam.components.reports.importance import ColumnImportance, TaskImportance

MAX_COLUMNS = 15
"""Columns in the chart of a task: the most important ones."""


@dataclass(frozen=True)
class ImportancePart:
    """The importances of one task: number of shuffled examples, and the chart."""

    examples: int
    chart: Markup


def parts(found: Sequence[TaskImportance]) -> list[ImportancePart]:
    """Returns the page's part of each task."""
    return [ImportancePart(each.examples, chart(each)) for each in found if each.columns]


def chart(found: TaskImportance) -> Markup:
    """Returns a bar for each of the most important columns, with its interval."""
    shown = [each for each in found.columns if each.value is not None][:MAX_COLUMNS]
    more = len(found.columns) - len(shown)
    title = f"{found.task}: lost {found.metric}" + (f"; {more} more matter less" if more else "")
    drawn = Chart(f"Permutation importance for {found.task}", width=2.8, height=0.8 + 0.19 * max(1, len(shown)))
    at = np.arange(len(shown))
    with drawn as axes:
        axes.barh(at, [each.value or 0.0 for each in shown], 0.6, color=FIRST)
        for place, each in enumerate(shown):
            if each.lower is not None and each.upper is not None:
                axes.plot([each.lower, each.upper], [place, place], color=INK, linewidth=0.9)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        box = axes.get_position()
        axes.set_position((0.42, box.y0, 0.55, box.height))
        axes.set_yticks(at, [_label(each) for each in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=4)
        axes.set_title(title, loc="left", x=-0.74)
    return drawn.svg


def _label(each: ColumnImportance, most: int = 18) -> str:
    name = ", ".join(each.columns)
    return name if len(name) <= most else f"{name[: most - 1]}…"

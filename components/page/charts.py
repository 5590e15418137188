"""Charts as SVG in the page's own colours: each is a small figure with a title for screen readers."""

import io
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter

from sangam.schemas.host.plain_text import visible

# Stand-ins that the style sheet's colours replace, so that a chart follows the theme.
INK, MUTED, GRID, FIRST, SECOND, GOOD, BAD = "#010203", "#020304", "#030405", "#040506", "#050607", "#060708", "#070809"
_THEME = {INK: "ink", MUTED: "muted", GRID: "line", FIRST: "first", SECOND: "second", GOOD: "good", BAD: "bad"}
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "axes.titlesize": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 8,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 8,
    "path.simplify_threshold": 0.5,
}
_TAG, _NUMBER = re.compile(r"<[^>]+>"), re.compile(r"-?\d+\.\d{3,}")


class Chart:
    """A figure: `with Chart(...) as axes:` draws it, `svg()` returns it."""

    def __init__(self, title: str, *, x: str = "", y: str = "", width: float = 2.9, height: float = 2.1):
        """Takes the title, the labels of the axes, and sizes in inches."""
        self._title, self._x, self._y, self._size = visible(title), x, y, (width, height)
        self._style = rc_context(_STYLE)

    def __enter__(self) -> Axes:
        self._style.__enter__()
        width, height = self._size
        self._figure = Figure(figsize=self._size)
        # Margins by hand: measuring the labels of forty charts takes as long as drawing them.
        left, bottom = (0.66 if self._y else 0.1), (0.44 if self._x else 0.25)
        box = (left / width, bottom / height, 1 - (left + 0.12) / width, 1 - (bottom + 0.24) / height)
        axes: Axes = self._figure.add_axes(box)
        axes.set_xlabel(self._x)
        axes.set_ylabel(self._y)
        return axes

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                self._svg = self._drawn()
        finally:
            self._style.__exit__(None, None, None)

    def _drawn(self) -> Markup:
        self._figure.patch.set_visible(False)
        for axes in self._figure.axes:
            axes.patch.set_visible(False)
            _show_controls(axes)
        with io.StringIO() as file, rc_context({"svg.hashsalt": self._title}):
            FigureCanvasSVG(self._figure).print_svg(file, metadata={"Date": None})  # type: ignore[no-untyped-call]
            text = file.getvalue()
        text = re.sub(
            r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.S
        )
        text = _TAG.sub(lambda tag: _themed(tag[0]), text)
        head = f'<svg role="img" aria-label="{escape(self._title)}" class="chart" '
        text = head + re.sub(r'^<svg |(?:width|height)="[\d.]+pt" ', "", text, count=3)
        return Markup(re.sub(r"\n\s*", "\n", text))

    @property
    def svg(self) -> Markup:
        """Returns the drawn chart."""
        return self._svg


def _show_controls(axes: Axes) -> None:
    """Replaces control characters in the texts of a chart: SVG and fonts have none."""
    for text in axes.findobj(Text):
        text.set_text(visible(text.get_text()))
    for axis in (axes.xaxis, axes.yaxis):
        formatter = axis.get_major_formatter()
        if isinstance(formatter, FuncFormatter):
            formatter.func = _visibly(formatter.func)


def _visibly(formatted: Callable[[float, int | None], str]) -> Callable[[float, int | None], str]:
    return lambda value, place: visible(formatted(value, place))


def _themed(tag: str) -> str:
    """Returns a tag of the SVG with short numbers, and the page's colors and font."""
    tag = _NUMBER.sub(lambda found: f"{float(found[0]):.1f}", tag)
    for stand_in, name in _THEME.items():
        tag = tag.replace(stand_in, f"var(--{name})")
    return re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", tag)


def smooth(values: Sequence[float], points: int = 120) -> tuple[list[float], list[float]]:
    """Returns positions and means of at most `points` intervals of equal length, without values that are not finite."""
    array = np.asarray(values, np.float64)
    edges = np.unique(np.linspace(0, len(array), min(points, len(array)) + 1).astype(int))
    x, y = [], []
    for start, end in itertools.pairwise(edges):
        part = array[start:end]
        part = part[np.isfinite(part)]
        if len(part):
            x.append((start + end) / 2)
            y.append(float(part.mean()))
    return x, y

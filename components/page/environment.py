"""The environment of the templates, with filters for numbers."""

import functools
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from sangam.schemas.derived.cost import serving_price
from sangam.schemas.host.plain_text import visible
from sangam.schemas.quantities import shown_bytes, shown_seconds


@functools.cache  # With the templates that are compiled.
def environment(*packages: str) -> Environment:
    """Returns the environment of the templates of some packages, then of the page; text from logs is escaped."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "sangam.components.page")]),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(serving_price=serving_price)
    made.filters.update(number=_number, count=_count, size=shown_bytes, percent=_percent, seconds=_seconds)
    return made


def _shown(value: Any) -> Any:
    return visible(value) if type(value) is str else value


def _number(value: Any, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _seconds(value: float | None) -> str:
    return "–" if value is None else shown_seconds(value)

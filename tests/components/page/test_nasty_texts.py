"""No text is markup on a page or a formula in a chart: whatever it has, it is shown as it is."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from markupsafe import Markup

from sangam.components.page import figures
from sangam.components.page.environment import environment
from sangam.components.page.facts import Distribution, Facts, FeatureFacts, PageContext
from sangam.components.page.render import render
from sangam.components.reports.headline import Headline
from sangam.schemas.host.plain_text import visible
from tests.components.page.sample_runs import facts, past, run
from tests.nasty_texts import NASTY, texts

pytestmark = pytest.mark.slow

CURVE = next(iter(facts().curves.values()))


def _feature(text: str, *, is_number: bool) -> Markup:
    shares = Distribution([text, text], [0.5, 0.5], [0.2, 0.8], is_number=is_number)
    return figures.feature(FeatureFacts(text, 0.0, 0.0, shares))


CHARTS: dict[str, Callable[[str], Markup]] = {
    "number": lambda text: _feature(text, is_number=True),
    "value": lambda text: _feature(text, is_number=False),
    "roc": lambda text: figures.roc(text, CURVE, 0.5),
    "loss": lambda text: figures.loss(text, [0.5, 0.4], [1, 1]),
    "norms": lambda text: figures.norms(text, [1, 2]),
    "day": lambda text: figures.metric_by_day("like", "auc", [(f"01234{text}", 0.5, None, text)]),
    "history": lambda text: figures.history("like", Headline("auc", 0.5, bound=0.4), past(), f"01234{text}"),
    "seconds": lambda text: figures.seconds_by_day([(f"01234{text}", {f"s{text}": 2.0})]),
}
LABELLED = ("number", "value", "loss", "norms", "day", "history", "seconds")


def _plain(text: str) -> str:
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("name", CHARTS)
@settings(max_examples=8, deadline=None)
@given(text=texts)
@example(text="$x^$")
@example(text="$5-$10")
@example(text="\ud800\x00\x1b")
def test_a_chart_shows_any_text_as_it_is(name: str, text: str) -> None:
    drawn = CHARTS[name](text)
    drawn.encode()
    root = ElementTree.fromstring(drawn)
    shown = _plain("".join("".join(each.itertext()) for each in root.iter() if each.tag.endswith("text")))
    if name in LABELLED:
        assert _plain(visible(text))[:10] in shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", drawn)


class _Tags(HTMLParser):
    """The tags of a page with their attributes' names."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))


def _tags(page: str) -> list[tuple[str, tuple[str, ...]]]:
    reader = _Tags()
    reader.feed(page)
    reader.close()
    return reader.found


def _page(text: str) -> str:
    shown = run("like", name=text, error=text, notes=[text], data=text, tasks={})
    return str(render(shown, Facts(), PageContext(checkpoint=text, log_tail=[text]), spec=text))


@settings(max_examples=6, deadline=None)
@given(text=texts)
@example(text="".join(NASTY))
def test_a_page_has_the_same_tags_whatever_a_text_has(text: str) -> None:
    page = _page(f"x{text}")
    page.encode()
    assert _tags(page) == _tags(_page("x"))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)


@pytest.mark.parametrize("text", NASTY)
def test_a_value_in_a_template_is_text(text: str) -> None:
    shown = environment().from_string("<p title='{{ text }}'>{{ text }}</p>").render(text=text)
    assert _tags(shown) == [("p", ("title",))]

"""Looks at a page as people do: by day and night, on a phone, with the keyboard, with a screen reader's eyes."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

MOST_BYTES = 1_500_000
_PHONE, _DESK = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)
_LOAD_MS = 1000
_SMALLEST_TEXT = 8.5
_CUT = """[...document.querySelectorAll('.scroll')]
    .filter(each => each.scrollWidth > each.clientWidth).map(each => each.getAttribute('aria-label'))"""
_TINY = f"""[...document.querySelectorAll('svg text')].filter(each => {{
    const scale = each.getScreenCTM();
    return Math.hypot(scale.a, scale.b) * parseFloat(getComputedStyle(each).fontSize) < {_SMALLEST_TEXT};
}}).map(each => each.textContent)"""
_EVERY_WAY = tuple((viewport, scheme) for viewport in (_DESK, _PHONE) for scheme in ("light", "dark"))
TWO_WAYS = ((_DESK, "light"), (_PHONE, "dark"))
"""Colors do not depend on the width, nor does what fits depend on the colors."""


def lacking() -> str:
    """Returns what a test of pages lacks, in words; empty: nothing."""
    return "" if shutil.which("chromium") else "Chromium (Debian: apt-get install --no-install-recommends chromium)"


def require() -> None:
    """Skips a test where there is no browser; with CI=true it fails."""
    if lacks := lacking():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"tests of pages lack {lacks}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Runs a browser."""
    require()
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses root; the pages are our own.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def look_at(path: Path, *words: str) -> None:
    """Fails unless a file is a page that anybody can read, with these words in it, and asks for nothing outside."""
    assert path.stat().st_size < MOST_BYTES
    with chromium() as browser:
        look_in_ways(browser, path.as_uri(), *words, ways=_EVERY_WAY)
        page = browser.new_page(viewport=_DESK)
        page.goto(path.as_uri())
        _check_keyboard(page)
        # The quickest of a few: the machine may be busy.
        assert min(_load_ms(page) for _ in range(4)) < _LOAD_MS


def _load_ms(page: Page) -> float:
    page.reload()
    took: float = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    return took


def look_in_ways(
    browser: Browser,
    address: str,
    *words: str,
    shows: str = "main",
    ways: Sequence[tuple[ViewportSize, str]] = TWO_WAYS,
) -> None:
    """Fails unless a page is readable by day and night, on a desk and a phone, and asks for nothing outside.

    Args:
        browser: that is open.
        address: of a file, or on a server of ours.
        words: that must be in it.
        shows: selector of what must be there before it is looked at.
        ways: windows, and the color scheme of each.
    """
    for viewport, scheme in ways:
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        page = context.new_page()
        told, asked = listened(page)
        page.goto(address)
        page.wait_for_selector(shows)
        check(page, f"{address}, {scheme}, {viewport['width']} wide")
        text = page.inner_text("body")
        assert not [word for word in words if word not in text], text[:2000]
        assert told == []
        assert [each for each in asked if not _is_own(each, address)] == []
        context.close()


def _is_own(asked: str, address: str) -> bool:
    """Says whether a request is for the page itself, or for the server that it is on."""
    if address.startswith("file:"):
        return asked == address
    place = urlsplit(address)
    return asked.startswith(f"{place.scheme}://{place.netloc}/")


def tab_to(page: Page, element: str, most: int = 40) -> None:
    """Presses Tab until an element, given by its id, has the focus; each stop on the way must be seen."""
    for _ in range(most):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "(() => { const at = document.activeElement, box = at.getBoundingClientRect();"
            " return [at.id, box.width > 0 && box.height > 0, getComputedStyle(at).outlineStyle]; })()"
        )
        assert found[1], f"{found[0]} has the focus and no size"
        assert found[2] != "none", f"{found[0]} does not show that it has the focus"
        if found[0] == element:
            return
    raise AssertionError(f"no way to {element} by the keyboard")


def listened(page: Page) -> tuple[list[str], list[str]]:
    """Returns the lists that fill with what the page says on its console and asks for."""
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url) if not request.url.startswith("data:") else None)
    return told, asked


def check(page: Page, what: str) -> None:
    """Fails if a page, with all its details open, or a table in it is cut, a chart is too small, or axe complains."""
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, what
    assert page.evaluate(_CUT) == [], f"{what}: scrolls sideways"
    assert page.evaluate(_TINY) == [], f"{what}: has text of less than {_SMALLEST_TEXT} pixels in charts"
    found = Axe().run(page)
    assert found.violations_count == 0, f"{what}: {found.generate_report()}"


def _check_keyboard(page: Page) -> None:
    """Fails unless the first stop skips to the content, and a section is reached by the keyboard alone."""
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('nav') !== null"):
            break
    target = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    assert target
    assert page.evaluate("location.hash") == target

"""Looks at a page as people do: by day and night, on a phone, with the keyboard, with a screen reader's eyes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

MOST_BYTES = 1_500_000
_PHONE, _DESK = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)
_LOAD_MS = 1000


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
        for viewport in (_DESK, _PHONE):
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport=viewport, color_scheme=scheme)
                page = context.new_page()
                told, asked = _listened(page)
                page.goto(path.as_uri())
                assert (told, asked) == ([], [path.as_uri()])
                _check(page, f"{path.name}, {scheme}, {viewport['width']} wide")
                context.close()
        page = browser.new_page(viewport=_DESK)
        page.goto(path.as_uri())
        text = page.inner_text("body")
        assert not [word for word in words if word not in text], text[:2000]
        _check_keyboard(page)
        took = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        assert took < _LOAD_MS


def _listened(page: Page) -> tuple[list[str], list[str]]:
    """Returns the lists that fill with what the page says on its console and asks for."""
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url) if not request.url.startswith("data:") else None)
    return told, asked


def _check(page: Page, what: str) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, what
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

"""The pages in a browser: of made-up roots, and of a real run while it goes on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.pages import check, chromium, listened, look_in_ways, tab_to
from tests.paths import REPOSITORY
from tests.pipelines.ui.sample_root import (
    FAILED,
    NEW,
    OLD,
    SEARCH,
    run_id,
    write_backfill,
    write_runs,
    write_search,
)
from tests.pipelines.ui.server import sangam_ui

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = write_runs(tmp_path_factory.mktemp("root"))
    write_search(root)
    write_backfill(root)
    with sangam_ui(root.path) as (found, _):
        yield found


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", ("Runs", "2024-03-08", "version 20240308001", "0.7148", "+0.0097", "in trainer")),
        (f"compare?a={run_id(OLD)}&b={run_id(NEW)}", ("training.epochs", "+0.0054", "2024-03-05 to 2024-03-07 (3)")),
        (f"searches/small/{SEARCH}", ("Trial 1 is the best", "0.7240", "learning_rate", "losses were not finite")),
        ("searches", ("like auc", "0.7240")),
        ("overview", ("Runs since", "7 min 32 s")),
        ("backfills", ("4 of 5 dates", "refused", "skipped")),
        (f"runs/{run_id(FAILED)}", ("failed in trainer", "no memory", "What to try")),
        (f"runs/{run_id(NEW)}", ("Overview", "Compare with the run before", "Pushed")),
    ],
    ids=["runs", "compare", "search", "searches", "overview", "backfills", "failed", "report"],
)
def test_anybody_can_read_a_page(browser: Browser, address: str, path: str, words: tuple[str, ...]) -> None:
    look_in_ways(browser, address + path, *words)


def test_empty_pages_can_be_read(browser: Browser, tmp_path: Path) -> None:
    with sangam_ui(tmp_path) as (empty, _):
        for path in ("", "backfills"):
            look_in_ways(browser, empty + path, f"--root {tmp_path}")


def test_two_runs_are_compared_by_the_keyboard_alone(browser: Browser, address: str) -> None:
    page = browser.new_page()
    told, _ = listened(page)
    page.goto(address)
    for number in (NEW, OLD):
        tab_to(page, f"run-{run_id(number)}")
        page.keyboard.press("Space")
    tab_to(page, "compare")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/compare?a={run_id(OLD)}&b={run_id(NEW)}")
    assert page.locator(".curves svg").count() == 5
    assert told == []
    page.close()


def test_without_a_script_the_pages_work(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    page.check(f"#run-{run_id(NEW)}")
    page.check(f"#run-{run_id(OLD)}")
    page.click("#compare")
    expect(page.locator("h1")).to_have_text("Compare two runs")
    context.close()


def test_a_real_run_is_watched_to_its_end(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    root, go = tmp_path / "root", tmp_path / "go"
    root.mkdir()
    command = [sys.executable, "-m", "tests.pipelines.local.sample_run", str(tmp_path / "data"), str(root)]
    environment = {**os.environ, "TINY_SECOND": "train", "TINY_GO": str(go)}
    with (
        sangam_ui(root) as (address, _),
        subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as run,
    ):
        try:
            page = browser.new_page()
            told, asked = listened(page)
            page.goto(address)
            # The empty list notices the run by itself.
            expect(page.locator("#watch")).to_be_visible(timeout=60_000)
            tab_to(page, "watch")
            page.keyboard.press("Enter")
            expect(page.locator("#sentence")).to_have_text("second is running; 1 of 2 steps are done.", timeout=60_000)
            expect(page.locator("[data-live=rate]")).to_have_text("500")
            expect(page.locator("[data-live=memory]")).to_contain_text("MB")
            expect(page.locator("[data-live=left]")).to_contain_text("min")
            expect(page.locator("#charts figcaption b")).to_have_text(["loss of like", "loss of share", "speed"])
            before = page.locator("[data-live=step]").inner_text()
            expect(page.locator("[data-live=step]")).not_to_have_text(before, timeout=10_000)
            check(page, "live")
            look_in_ways(browser, page.url, "2024-03-07", "examples/s", "step", shows="#charts svg polyline")
            go.touch()
            expect(page.locator("#notice")).to_contain_text("The run has ended", timeout=60_000)
            expect(page.locator("#step-rows .state")).to_have_text(["ran", "ran"])
            check(page, "ended")
            run.wait(60)
            page.click("#notice a")
            expect(page.locator("h1")).to_have_text("short_video · 2024-03-07")
            assert told == []
            assert [each for each in asked if not each.startswith(address)] == []
            page.close()
        finally:
            go.touch()
            run.kill()

"""The pages: each reads the root and fills a template."""

import asyncio
import contextlib
import datetime
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from multidict import MultiMapping

from sangam.components.page.environment import environment
from sangam.components.page.facts import Facts
from sangam.components.page.overview import newest_day, overview
from sangam.components.record.outcome import outcome_of
from sangam.components.record.store import StoredRun, find_run, read_runs
from sangam.pipelines.history.show import reason_of
from sangam.pipelines.times import utc_now
from sangam.pipelines.ui import figures
from sangam.pipelines.ui.backfills import read_backfills
from sangam.pipelines.ui.compare import compare, read_facts
from sangam.pipelines.ui.live import document, read_live, seconds_before
from sangam.pipelines.ui.runs import has_page, rows_of
from sangam.pipelines.ui.searches import columns_of, read_searches
from sangam.schemas.contracts.root import Root, RunFolder
from sangam.schemas.errors import UserError

LAST, MOST = 50, 1000
"""Default and largest number of runs in the list."""
RUN_ID = "[0-9A-Za-z][0-9A-Za-z_-]*"
"""Pattern of a run's id: it has no slash, so that no id leads out of the root."""
_MAX_NAME = 255
"""Longest name of a folder."""
_OVERVIEW_DAYS = 30
_PAST_RUNS = 5
_Argument = TypeVar("_Argument")


class NotHere(Exception):
    """The object of a request is not in the root; the text is the message."""


@dataclass(frozen=True)
class Shown:
    """The answer to a request: a page, or a redirect.

    Attributes:
        text: HTML of the page.
        is_report: whether the page is self-contained, with inline styles.
        address: target of the redirect; empty for a page.
    """

    text: str = ""
    is_report: bool = False
    address: str = ""


class Pages:
    """The pages of one root."""

    def __init__(self, root: Root):
        self._root = root
        # One thread: Matplotlib is not thread-safe.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="pages")

    def close(self) -> None:
        """Cancels pending pages."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def work(self, make: Callable[[_Argument], Shown], argument: _Argument) -> Shown:
        """Renders a page in the worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, make, argument)

    def _render(self, template: str, place: str, **context: Any) -> str:
        found = environment("sangam.pipelines.ui").get_template(template)
        return found.render(root=self._root.uri, place=place, **context)

    def message(self, title: str, sentence: str, advice: str, link: tuple[str, str]) -> str:
        """Returns a page with one message."""
        return self._render("message.html", "", title=title, sentence=sentence, advice=advice, link=link)

    def find(self, name: str) -> StoredRun:
        """Returns a run by its id.

        Raises:
            NotHere: no run has this id.
        """
        if re.fullmatch(RUN_ID, name) and len(name) <= _MAX_NAME:
            with contextlib.suppress(UserError):
                found = find_run(self._root.run(name).path)
                if found.id == name:
                    return found
        raise NotHere(f"There is no run {name} in this root.")

    def before(self, run: StoredRun, most: int = _PAST_RUNS) -> list[StoredRun]:
        """Returns the runs of the same ranker before one, newest first."""
        newest_first = [other for other in self._all(run.ranker) if run.ranker]
        own = next((place for place, other in enumerate(newest_first) if other.id == run.id), len(newest_first))
        return newest_first[own + 1 :][:most]

    def _all(self, ranker: str | None = None, limit: int | None = None) -> list[StoredRun]:
        return read_runs(self._root.path, ranker, limit) if self._root.runs.is_dir() else []

    def runs(self, query: Mapping[str, str]) -> Shown:
        """Returns the list of runs."""
        found = self._all()
        rankers = sorted({run.ranker for run in found if run.ranker})
        ranker = query.get("name") or None
        if ranker is not None and ranker not in rankers:
            raise NotHere(f"There is no run of {ranker} in this root.")
        asked = query.get("last", "")
        # Python converts at most 4,300 digits.
        last = min(max(int(f"0{asked.lstrip('0')[:9]}"), 1), MOST) if asked.isascii() and asked.isdigit() else LAST
        of_ranker = [run for run in found if ranker in (None, run.ranker)]
        rows = rows_of(of_ranker, utc_now())[:last]
        running = next((run for run in found if run.state == "running"), None)
        live = document(read_live(running, seconds_before(self.before(running)))) if running else None
        return Shown(
            self._render(
                "runs.html",
                "/",
                rows=rows,
                rankers=rankers,
                ranker=ranker,
                more=len(of_ranker) - len(rows),
                last=last,
                running=running,
                live=live,
            )
        )

    def run(self, name: str) -> Shown:
        """Returns the report of a run, or its live page if it has no report."""
        run = self.find(name)
        if not has_page(run):
            return self.live(name)
        text = run.folder.page.read_text(encoding="utf-8", errors="replace")
        before = self.before(run, 1)
        return Shown(self._with_way_back(text, run, before[0] if before else None), is_report=True)

    def live(self, name: str) -> Shown:
        """Returns the live page of a run, for a running one or one without a report."""
        run = self.find(name)
        told = document(read_live(run, seconds_before(self.before(run))))
        reason = None if run.state in ("running", "pushed", "blessed", "ended") else reason_of(run)
        return Shown(
            self._render(
                "run.html",
                "",
                run=run,
                outcome=outcome_of(run),
                live=told,
                reason=reason,
                has_page=has_page(run),
            )
        )

    def compare(self, query: MultiMapping[str]) -> Shown:
        """Returns two runs side by side, or the form to choose two."""
        chosen = sorted(set(query.getall("run", [])))
        if len(chosen) == 2:
            return Shown(address=f"/compare?{urlencode(dict(zip('ab', chosen, strict=True)))}")
        names = query.get("a", chosen[0] if chosen else ""), query.get("b", "")
        runs, compared = self._all(), None
        old, new = (self.find(name) if name else None for name in names)
        if old and new:
            facts, lacks = (Facts(), Facts()), ""
            try:
                facts = read_facts(old, new)
            except UserError as error:
                lacks = str(error)
            compared = compare(old, new, facts, lacks)
        rows = rows_of(runs, utc_now())
        by_id = {row.id: row for row in rows}
        return Shown(
            self._render(
                "compare.html",
                "/compare",
                rows=rows[:MOST],
                old=by_id.get(names[0]),
                new=by_id.get(names[1]),
                compared=compared,
                num_chosen=len(chosen),
            )
        )

    def overview(self) -> Shown:
        """Returns the page of `sangam report`."""
        newest = newest_day(self._root) if self._root.runs.is_dir() else None
        if newest is None:
            return Shown(self._render("overview_empty.html", "/overview"))
        first = newest - datetime.timedelta(days=_OVERVIEW_DAYS - 1)

        def page_of(folder: RunFolder) -> str:
            return f"/runs/{folder.path.name}"

        _, text = overview(self._root, page_of, first=first, ranker=None)
        return Shown(self._with_way_back(text, None, None), is_report=True)

    def _with_way_back(self, text: str, run: StoredRun | None, before: StoredRun | None) -> str:
        """Adds links to other pages to a self-contained page; it works without scripts."""
        head, found, rest = text.partition("<header>")
        links = self._render("top.html", "/overview" if run is None else "", run=run, before=before)
        return f"{head}{links}{found}{rest}" if found else text

    def searches(self) -> Shown:
        """Returns the list of searches."""
        return Shown(self._render("searches.html", "/searches", searches=read_searches(self._root)))

    def search(self, ranker: str, search: str) -> Shown:
        """Returns one search."""
        found = next((each for each in read_searches(self._root) if (each.ranker, each.id) == (ranker, search)), None)
        if found is None:
            raise NotHere(f"There is no search {search} for {ranker} in this root.")
        points = [(trial.number, trial.objective, trial.state) for trial in found.trials if trial.objective is not None]
        chart = figures.trials(points, found.best_so_far, found.objective) if points else None
        columns = columns_of(found.trials)
        order = {"running": 0, "done": 1, "pruned": 2, "failed": 3}
        sign = -1.0 if found.is_larger_better else 1.0
        trials = sorted(
            found.trials,
            key=lambda trial: (order.get(trial.state, 4), sign * (trial.objective or 0.0), trial.number),
        )
        return Shown(
            self._render("search.html", "/searches", search=found, trials=trials, columns=columns, chart=chart)
        )

    def backfills(self) -> Shown:
        """Returns all backfills."""
        return Shown(self._render("backfills.html", "/backfills", backfills=read_backfills(self._root)))

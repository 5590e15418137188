"""The runs before that a page shows."""

import datetime
from collections.abc import Iterable

from components.reports.page.facts import PastRun

DAYS = 30


def past_runs(before: Iterable[PastRun], date: str | None) -> list[PastRun]:
    """Returns the last run of each of the 30 days before a date, the oldest day first.

    Args:
        before: runs of the same ranker, in the order in which they ran.
        date: of the run that the page is of; None: logs without days.
    """
    if date is None:
        return []
    first = str(datetime.date.fromisoformat(date) - datetime.timedelta(days=DAYS))
    by_date = {run.date: run for run in before if run.date and first <= run.date < date}
    return [by_date[day] for day in sorted(by_date)]

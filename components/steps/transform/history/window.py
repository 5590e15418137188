"""The sums over the days before a day: a day is added once, and subtracted once it is too old."""

import datetime
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sangam.components.examples.listing import DayExamples
from sangam.components.steps.transform.history.counts import Counts, empty, summed
from sangam.schemas.derived.days import Day, parse_day
from sangam.schemas.derived.history import By, HistoryGroup

CountsOf = Callable[[DayExamples], dict[By, Counts]]


@dataclass(frozen=True)
class _Held:
    day: Day
    examples: DayExamples


class Window:
    """The sums of a group of features.

    Attributes:
        group: group of the features.
        counts: counts of the window's days.
    """

    def __init__(self, group: HistoryGroup, tasks: int, first: Day, counts_of: CountsOf):
        """Starts without days.

        Args:
            group: group of the features.
            tasks: number of tasks whose labels are summed.
            first: first day for a group without a number of days.
            counts_of: reads the counts of a day again.
        """
        self.group, self.counts = group, empty(tasks)
        self._first = first
        self._counts_of = counts_of
        self._held: deque[_Held] = deque()

    def move_to(self, day: Day) -> None:
        """Subtracts the days that are too old for the rows of a day."""
        first = self._first if self.group.days is None else day - datetime.timedelta(days=self.group.days)
        while self._held and self._held[0].day < first:
            old = self._counts_of(self._held.popleft().examples)[self.group.by]
            self.counts = summed([self.counts, old.minus()])

    def add(self, examples: DayExamples, counts: dict[By, Counts]) -> None:
        """Adds a day later than all earlier ones."""
        self._held.append(_Held(parse_day(str(examples.day)), examples))
        self.counts = summed([self.counts, counts[self.group.by]])

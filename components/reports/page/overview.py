"""The page of many runs: AUC by day with the gates, what was pushed, refused and rolled back, and the seconds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from components.reports.page import figures
from components.reports.page.environment import environment


@dataclass(frozen=True)
class OverviewRun:
    """One run of a ranker.

    Attributes:
        name: of the run.
        date: last day of its evaluation, or of the run where logs have no days.
        status: succeeded, failed or stopped.
        blessed: None: nobody judged the model.
        pushed: version; None: not pushed.
        rolled_back: why the version was withdrawn; None: it was not.
        why: the first cause of a failure or a refusal; empty without.
        auc: by task.
        bounds: the tightest bound on AUC over all examples, by task.
        seconds: by step.
        total_seconds: from start to end.
        cost: by step, in `currency`; empty where its spec has no prices.
        currency: of the prices.
        page: of the run, relative to this one; None: it has none.
    """

    name: str
    date: str
    status: str
    blessed: bool | None
    pushed: str | None
    rolled_back: str | None
    why: str
    auc: dict[str, float | None]
    bounds: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    total_seconds: float = 0.0
    cost: dict[str, float] = field(default_factory=dict)
    currency: str = ""
    page: str | None = None

    @property
    def outcome(self) -> str:
        """One word: pushed, rolled back, blessed, refused, failed or stopped."""
        if self.rolled_back is not None:
            return "rolled back"
        if self.pushed is not None:
            return "pushed"
        if self.status != "succeeded":
            return self.status
        return "refused" if self.blessed is False else "blessed"


@dataclass(frozen=True)
class StepRow:
    """A step over all runs that came to it: the mean and sum of its seconds, and of its cost in the newest currency."""

    name: str
    runs: int
    mean_seconds: float
    seconds: float
    mean_cost: float | None
    cost: float | None


@dataclass(frozen=True)
class _Ranker:
    name: str
    runs: Sequence[OverviewRun]
    outcomes: Counter[str]
    charts: list[Markup]
    steps: list[StepRow]
    currency: str


def render_overview(runs: Mapping[str, Sequence[OverviewRun]], *, since: str) -> str:
    """Returns the page.

    Args:
        runs: by ranker, oldest first.
        since: the first day.
    """
    rankers = []
    for name, of_name in runs.items():
        currency = next((run.currency for run in reversed(of_name) if run.currency), "")
        outcomes = Counter(run.outcome for run in of_name)
        rankers.append(_Ranker(name, of_name, outcomes, _charts(of_name), list(steps_of(of_name, currency)), currency))
    return environment().get_template("overview.html").render(rankers=rankers, since=since)


def steps_of(runs: Sequence[OverviewRun], currency: str) -> Iterator[StepRow]:
    """Yields the steps in their order; costs in another currency than the newest are left out."""
    for name in dict.fromkeys(step for run in runs for step in run.seconds):
        seconds = [run.seconds[name] for run in runs if name in run.seconds]
        costs = [run.cost[name] for run in runs if run.currency == currency and name in run.cost]
        yield StepRow(
            name=name,
            runs=len(seconds),
            mean_seconds=sum(seconds) / len(seconds),
            seconds=sum(seconds),
            mean_cost=sum(costs) / len(costs) if costs else None,
            cost=sum(costs) if costs else None,
        )


def _charts(runs: Sequence[OverviewRun]) -> list[Markup]:
    tasks = dict.fromkeys(task for run in runs for task in run.auc)
    charts = [
        figures.auc_by_day(
            task,
            [
                (run.date, value, run.bounds.get(task), run.outcome)
                for run in runs
                if (value := run.auc.get(task)) is not None
            ],
        )
        for task in tasks
        if any(run.auc.get(task) is not None for run in runs)
    ]
    return [*charts, figures.seconds_by_day([(run.date, run.seconds) for run in runs])]

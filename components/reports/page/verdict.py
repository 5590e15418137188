"""The page's first sentence: whether the model was pushed, and why."""

from dataclasses import dataclass
from typing import Literal

from components.reports.page.facts import Facts, Run
from components.reports.serving import Check


@dataclass(frozen=True)
class Verdict:
    """The outcome of a run in words.

    Attributes:
        tone: of the banner.
        headline: two or three words.
        sentence: why.
        causes: every gate and check that failed, a sentence each.
    """

    tone: Literal["good", "bad", "neutral"]
    headline: str
    sentence: str
    causes: list[str]


def verdict_of(run: Run, facts: Facts) -> Verdict:
    """Returns the outcome of a run."""
    causes = [f"{task}: {gate.reason}" for task, gate in facts.verdict.failures()] if facts.verdict else []
    causes += [f"serving check {each.name}: {each.reason}" for each in _checks(facts) if not each.passed]
    if run.status != "succeeded":
        where = f" in step {run.failed_step}" if run.failed_step else ""
        return Verdict("bad", run.status.capitalize(), f"The run {_ended(run)}{where}: nothing was pushed.", causes)
    if run.blessed is False:
        first = f": {causes[0]}" if causes else ""
        more = f", and {len(causes) - 1} more" if len(causes) > 1 else ""
        return Verdict("bad", "Refused", f"Nothing was pushed, because a gate refused the model{first}{more}.", causes)
    by_hand = f" by hand by {facts.verdict.by} ({facts.verdict.because})" if facts.verdict and facts.verdict.by else ""
    gates = sum(len(task.gates) for task in facts.verdict.tasks.values()) if facts.verdict else 0
    held = f"all {gates} gates and {len(_checks(facts))} serving checks held"
    if run.pushed:
        why = f"the model was blessed{by_hand}" if by_hand else held
        return Verdict("good", "Pushed", f"Version {run.pushed} was pushed, because {why}.", causes)
    return Verdict("neutral", "Blessed", f"The model was blessed{by_hand}: {held}; nothing was pushed.", causes)


def _checks(facts: Facts) -> list[Check]:
    return facts.serving.checks if facts.serving else []


def _ended(run: Run) -> str:
    return "was stopped" if run.status == "stopped" else "failed"

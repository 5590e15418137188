"""A look at the version in the shadow, and what follows from it."""

import datetime
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sangam.components.alerts import send
from sangam.components.alerts.event import decision_event
from sangam.components.page import decision as page
from sangam.components.promotion.comparing import compare
from sangam.components.promotion.rule import decide
from sangam.components.record.store import read_runs
from sangam.components.registry import shadow
from sangam.components.registry.shadow import Decision, Waiting
from sangam.components.reports.promotion import Comparison, Verdict
from sangam.schemas.contracts.root import Root, RunFolder
from sangam.schemas.spec import Spec
from sangam.schemas.spec.release import DirectoryPush


@dataclass(frozen=True)
class Look:
    """What was found.

    Attributes:
        waiting: the version, and the live one.
        comparison: the comparison; None where a person or a newer live version decides.
        verdict: what is decided.
        by: the person who decided; empty: the rule.
    """

    waiting: Waiting
    comparison: Comparison | None
    verdict: Verdict
    by: str = ""

    def decision(self, now: datetime.datetime) -> Decision:
        """Returns the record of a version that leaves the shadow."""
        verdict: Literal["promoted", "dropped"] = "promoted" if self.verdict.decision == "promote" else "dropped"
        return Decision(
            version=self.waiting.version,
            live=self.waiting.live,
            verdict=verdict,
            because=self.verdict.because,
            measured=self.comparison.lines() if self.comparison else [],
            by=self.by,
            at=now,
        )


def look(spec: Spec, push: DirectoryPush, waiting: Waiting, data_root: str, now: datetime.datetime) -> Look:
    """Compares a version that waits with the live one, and decides.

    Raises:
        UserError: a file of the logs cannot be read.
    """
    if int(waiting.live) > int(waiting.version):
        because = f"version {waiting.live}, which is newer, is live"
        return Look(waiting, None, Verdict(decision="drop", because=because))
    comparison = compare(spec, push, waiting, data_root, now)
    hours = (now - waiting.since).total_seconds() / 3600
    return Look(waiting, comparison, decide(comparison.tasks, push, hours))


def act(spec: Spec, root: Root, folder: Path, found: Look, now: datetime.datetime) -> list[str]:
    """Promotes or drops a version, and tells so on the page of its run and by an alert.

    Returns:
        Why an alert could not be sent.

    Raises:
        UserError: the version does not wait any more, is damaged, or a newer one is live.
    """
    decision = found.decision(now)
    if decision.verdict == "promoted":
        shadow.promote(folder, decision)
    else:
        shadow.drop(folder, decision)
    run = _run(root, spec.name, decision.version)
    if run:
        page.tell(run.page, decision.lines())
    if spec.alerts is None:
        return []
    event = decision_event(root, folder, spec.name, decision, run, spec.alerts.ui or "")
    problem = send(spec.alerts, event, os.environ)
    return [problem] if problem else []


def _run(root: Root, ranker: str, version: str) -> RunFolder | None:
    """Returns the newest run that pushed a version into the shadow."""
    if not root.runs.is_dir():
        return None
    for run in read_runs(root.path, ranker):
        pushed = run.record.pushed if run.record else None
        if pushed and pushed.shadow_of and pushed.version == version:
            return run.folder
    return None

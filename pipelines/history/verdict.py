"""What became of a run in one sentence, and what to do about it."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.alerts.refusal import refusal
from components.registry import versions
from components.registry.record import BlessedModel
from components.reports.evaluation import NEVER_BY_HAND
from pipelines.history.runs import LocalRun
from pipelines.local.result.summary import Summary
from schemas.contracts.exit_codes import ExitCode
from schemas.host.files import tail

_TAIL_LINES = 15


@dataclass(frozen=True)
class Reason:
    """Why a run did not push a model.

    Attributes:
        verdict: in one sentence.
        causes: the first one first.
        log: that says most; None: there is none.
        tail: its last lines.
        exit_code: of the run; None: not known.
        advice: what to try, and the commands.
    """

    verdict: str
    causes: tuple[str, ...] = ()
    log: Path | None = None
    tail: str = ""
    exit_code: int | None = None
    advice: tuple[str, ...] = ()

    def document(self, run: LocalRun) -> dict[str, Any]:
        """Returns the reason as JSON, for programs."""
        return {
            "run": run.id,
            "state": run.state,
            "verdict": self.verdict,
            "causes": list(self.causes),
            "log": str(self.log) if self.log else None,
            "tail": self.tail.splitlines(),
            "exit_code": self.exit_code,
            "advice": list(self.advice),
        }


def verdict(run: LocalRun, by_hand: BlessedModel | None = None) -> str:
    """Returns what became of a run.

    Args:
        run: the run.
        by_hand: the blessing that a person has given its model after it was refused.
    """
    summary = run.summary
    if summary is None:
        return {
            "running": "running: it has not ended yet",
            "killed": "killed: it left no summary",
        }.get(run.state, "unreadable: another version of Sangam has written its summary")
    if run.state in ("failed", "stopped"):
        where = f" in {summary.failed_step}" if summary.failed_step else ""
        return f"{run.state}{where}: {_first_line(summary.error)}"
    if run.state == "refused":
        text = f"not pushed: the gates refused the model: {'; '.join(_refusals(summary))}"
        if by_hand is None:
            return text
        version = by_hand.pushed.rpartition("/")[2]
        how = f"by hand by {by_hand.by}, because {by_hand.because}"
        return f"blessed {how}" + (f", and pushed as version {version}" if version else "") + f" ({text})"
    if summary.blessed is None:
        return "succeeded without a verdict: it made examples for a search"
    if summary.pushed is None:
        return "blessed and not pushed: push.kind of the spec is none"
    return f"pushed as version {summary.pushed.version}: every gate passed{_since(Path(summary.pushed.path))}"


def reason_of(run: LocalRun) -> Reason:
    """Returns why a run failed or was refused, and what to try."""
    summary, told = run.summary, verdict(run)
    if run.state == "running":
        return Reason(told, log=(log := _last_log(run)), tail=tail(log, _TAIL_LINES) if log else "")
    if run.state == "refused" and summary:
        return Reason(told, tuple(_refusals(summary)), exit_code=ExitCode.REJECTED, advice=_on_refusal(run, summary))
    if run.state == "succeeded":
        return Reason(told, exit_code=ExitCode.DONE)
    causes = tuple((summary.error or "").splitlines()) if summary else ()
    log = _log_of(run, summary.failed_step if summary else None)
    return Reason(
        told,
        causes,
        log,
        tail(log, _TAIL_LINES) if log else "",
        summary.exit_code if summary else None,
        _on_failure(run, summary),
    )


def _on_refusal(run: LocalRun, summary: Summary) -> tuple[str, ...]:
    never = any(
        gate.kind in NEVER_BY_HAND and not gate.passed for task in summary.tasks.values() for gate in task.gates
    )
    is_unfit = summary.serving is not None and not summary.serving.blessed
    compare = f"compare with the run before: sangam diff RUN {shlex.quote(str(run.folder.path))}"
    if never or is_unfit:
        return (compare, "this cannot be overridden by hand: change the spec, and run again")
    bless = f"sangam bless {shlex.quote(str(run.folder.path))} --because REASON"
    return (compare, f"bless the model on your responsibility: {bless}")


def _on_failure(run: LocalRun, summary: Summary | None) -> tuple[str, ...]:
    again = resume_command(run, summary)
    if summary and summary.exit_code == ExitCode.MISTAKE:
        return (f"the spec, an option or the logs are wrong: fix that first, then run again: {again}",)
    return (f"the same command resumes after the last finished step: {again}",)


def resume_command(run: LocalRun, summary: Summary | None) -> str:
    """Returns the command that runs the same again; what is not known stands in capitals."""
    spec = str(run.folder.spec) if run.folder.spec.is_file() else None
    options: Mapping[str, str | None] = {
        "--date": summary.date if summary else run.date or "YYYY-MM-DD",
        "--data": (summary.data if summary else None) or "DATA",
        "--root": run.root.uri,
    }
    words = ["sangam", "run", spec or "SPEC"]
    words += [word for option, value in options.items() if value for word in (option, value)]
    return shlex.join(words)


def _refusals(summary: Summary) -> list[str]:
    gates = [(name, gate) for name, task in summary.tasks.items() for gate in task.gates]
    return refusal(gates, summary.serving.checks if summary.serving else []).splitlines()


def _since(version: Path) -> str:
    """Returns what has become of a pushed version."""
    if version.is_dir():
        return ""
    withdrawal = versions.withdrawn(version.parent).get(version.name)
    return f"; rolled back since, because {withdrawal.because}" if withdrawal else "; the version was removed since"


def _log_of(run: LocalRun, step: str | None) -> Path | None:
    of_step = run.folder.logs / f"{step}.log"
    return of_step if step and of_step.is_file() else _last_log(run)


def _last_log(run: LocalRun) -> Path | None:
    logs = sorted(run.folder.logs.glob("*.log"), key=lambda path: path.stat().st_mtime)
    return logs[-1] if logs else None


def _first_line(text: str | None) -> str:
    return next((line for line in (text or "").splitlines() if line.strip()), "no error was told")

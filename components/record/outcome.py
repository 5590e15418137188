"""The outcome of a run in words, with advice, for the terminal, pages, alerts and commands."""

import datetime
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sangam.components.object_stores import is_stored
from sangam.components.record.journal import Noted, read_journal
from sangam.components.record.run import Pushed, RunRecord
from sangam.components.record.store import State, StoredRun, pushed_before, stored
from sangam.components.registry import shadow, versions
from sangam.components.registry.record import BlessedModel
from sangam.components.reports import evaluation
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import SUMMARY_FILE
from sangam.schemas.quantities import shown_bytes, shown_seconds

Tone = Literal["good", "warn", "bad", "mute", "live"]
"""Color of an outcome: good, warn, bad, mute if there is nothing to do, live while running."""
TONES: dict[State, Tone] = {
    "pushed": "good",
    "blessed": "good",
    "ended": "good",
    "refused": "warn",
    "failed": "bad",
    "killed": "bad",
    "stopped": "mute",
    "unreadable": "bad",
    "running": "live",
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        word: state; `rolled back` for a run whose version was withdrawn since, `dropped` if that was from the shadow.
        sentence: sentence with the cause.
        causes: causes, the first one first; empty after a success.
        advise: returns the advice; it may read other runs.
        short: the sentence without its causes.
        warnings: sentences on what no gate refused.
    """

    word: str
    tone: Tone
    sentence: str
    causes: tuple[str, ...] = ()
    advise: Callable[[], tuple[str, ...]] = tuple
    short: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def advice(self) -> tuple[str, ...]:
        """Remedies with their commands."""
        return self.advise()

    @property
    def headline(self) -> str:
        """The word, with the number of warnings: `pushed, with 1 warning`."""
        number = len(self.warnings)
        return f"{self.word}, with {number} warning{'s' if number > 1 else ''}" if number else self.word

    @property
    def why(self) -> str:
        """The first cause; empty after a success."""
        return self.causes[0] if self.causes else ""


def outcome_of(run: StoredRun, by_hand: BlessedModel | None = None) -> Outcome:
    """Returns the outcome of a run.

    Args:
        run: stored run.
        by_hand: manual blessing of its refused model.
    """
    found = _outcome(run, by_hand)
    return replace(found, warnings=tuple(run.record.warnings)) if run.record else found


def _outcome(run: StoredRun, by_hand: BlessedModel | None) -> Outcome:
    record, tone = run.record, TONES[run.state]
    if record is None:
        return _without_record(run, tone)
    if run.state in ("failed", "stopped"):
        short = f"{run.state} in {record.failed_step}" if record.failed_step else run.state
        causes = tuple(line for line in (record.error or "no error was reported").splitlines() if line.strip())
        return Outcome(run.state, tone, f"{short}: {causes[0]}", causes, lambda: _again(run), short)
    if run.state == "refused":
        short, causes = "not pushed: a gate refused the model", tuple(refusals(record))
        sentence = f"{short}: {'; '.join(causes)}"
        if by_hand is not None:
            version = by_hand.pushed.rpartition("/")[2]
            how = f"by hand by {by_hand.by}, because {by_hand.because}"
            pushed = f", and pushed as version {version}" if version else ""
            sentence = f"blessed {how}{pushed} ({sentence})"
        return Outcome(run.state, tone, sentence, causes, lambda: _on_refusal(run, record), short)
    if record.blessed is None:
        return Outcome("ended", tone, "ended without a verdict: it made examples for a search")
    if record.pushed is None:
        return Outcome("blessed", tone, "blessed and not pushed: push.kind of the spec is none")
    return _pushed(record.pushed)


def _without_record(run: StoredRun, tone: Tone) -> Outcome:
    if run.state == "running":
        return Outcome(run.state, tone, "running: it has not ended yet")
    if run.state == "unreadable":
        short = f"unreadable: its {SUMMARY_FILE} is damaged"
        return Outcome(run.state, tone, f"{short} (got: {run.problem})", (run.problem,), lambda: _again(run), short)
    noted = read_journal(run.folder)
    if noted.heard_at is not None:
        return _lost(run, noted, tone)
    where = f" in {noted.running.name}" if noted.running else ""
    return Outcome(run.state, tone, f"killed{where}: it left no {SUMMARY_FILE}", (), lambda: _again(run))


def _lost(run: StoredRun, noted: Noted, tone: Tone) -> Outcome:
    """Returns the outcome of a run on Kubeflow without a record, whose pods tell nothing any more."""
    heard = datetime.datetime.fromtimestamp(noted.heard_at or 0.0, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    last = max(noted.steps.values(), key=lambda step: step.started_at or 0.0, default=None)
    if noted.running:
        short = f"lost in {noted.running.name}"
        why = f"its pod has not been heard of since {heard}"
    else:
        short = f"lost after {last.name}" if last else "lost"
        why = f"no step has begun since {heard}: the run was ended, or a pod still waits for a node or an image"
    errors = (f"{last.name}: {last.error}",) if last and last.error else ()
    return Outcome(run.state, tone, f"{short}: {why}", (why, *errors), lambda: _look_at(noted), short)


def _look_at(noted: Noted) -> tuple[str, ...]:
    return (
        f"`sangam status {noted.ranker or 'NAME'} --host URL` says whether Kubeflow goes on with it",
        "run the same date again: steps that succeeded come from the cache",
    )


def _pushed(pushed: Pushed) -> Outcome:
    sentence, place = f"pushed as version {pushed.version}: every gate passed", Path(pushed.path)
    # A page or a list of runs asks no store.
    if is_stored(pushed.path):
        return Outcome("pushed", "good", sentence)
    if shadow.is_waiting(place.parent, place.name):
        return Outcome("pushed", "good", f"{sentence}; {shadow.waits_text(pushed.shadow_of)}")
    decided = shadow.decision_on(place.parent, place.name) if pushed.shadow_of else None
    if place.is_dir():
        return Outcome("pushed", "good", f"{sentence}; {decided.sentence}" if decided else sentence)
    withdrawal = versions.withdrawn(place.parent).get(place.name) if place.parent.is_dir() else None
    if withdrawal is None:
        return Outcome("pushed", "good", f"{sentence}; the version was removed since")
    because = withdrawal.because or "no reason is recorded"
    if decided and decided.verdict == "dropped":
        return Outcome("dropped", "warn", f"{sentence}; {decided.sentence}", (because,))
    return Outcome("rolled back", "bad", f"{sentence}; rolled back since, because {because}", (because,))


def refusals(record: RunRecord) -> list[str]:
    """Returns a sentence for every gate and every serving check that has failed."""
    checks = record.serving.checks if record.serving else []
    refused = evaluation.refusals(record.tasks)
    return refused + [f"serving check {check.name}: {check.reason}" for check in checks if not check.passed]


def refusing_steps(record: RunRecord) -> list[str]:
    """Returns the steps that have refused the model."""
    by_step = {
        "evaluator": any(judged.failures for judged in record.tasks.values()),
        "infra_validator": record.serving is not None and not record.serving.blessed,
    }
    return [step for step, has_refused in by_step.items() if has_refused]


def ending_lines(record: RunRecord) -> list[str]:
    """Returns the end of a run as the terminal shows it: blessed or not, pushed, live, duration."""
    lines = []
    if record.blessed is not None:
        names = {"evaluator": "quality gates", "infra_validator": "serving check"}
        refusing = " and the ".join(names[step] for step in refusing_steps(record))
        lines.append("blessed" if record.blessed else f"not blessed: refused by the {refusing}")
    if record.pushed or record.status not in ("failed", "stopped"):
        lines.append(f"pushed: {_version(record)}")
    if record.live:
        what = f"version {record.live.version}" if record.live.version else "nothing"
        lines.append(f"live: {what} in {record.live.folder}")
    cached = sum(step.cached for step in record.steps.values())
    peak = max((step.peak_memory_bytes for step in record.steps.values()), default=0)
    steps = f"; {cached} of {len(record.steps)} steps cached, peak memory {shown_bytes(peak)}" if record.steps else ""
    return [*lines, f"{outcome_of(stored(record)).headline}, after {shown_seconds(record.total_seconds)}{steps}"]


def _version(record: RunRecord) -> str:
    """Returns the version that the run's model was pushed as, and why it is not the live one if it is not."""
    pushed, live = record.pushed, record.live
    if pushed is None:
        return "nothing"
    said = f"version {pushed.version} in {pushed.path}"
    if live is None or live.version == pushed.version:
        return said
    if shadow.is_waiting(Path(pushed.path).parent, pushed.version):
        return f"version {pushed.version}, which {shadow.waits_text(pushed.shadow_of)}"
    if live.withdrawn is not None:
        return f"nothing: this model was version {pushed.version}, which was rolled back ({live.withdrawn})"
    return f"{said}, which is not live"


def _on_refusal(run: StoredRun, record: RunRecord) -> tuple[str, ...]:
    folder = shlex.quote(str(run.folder.path))
    before = pushed_before(run)
    compare = (
        (f"compare with the run before: sangam diff {shlex.quote(str(before.folder.path))} {folder}",) if before else ()
    )
    never = evaluation.refusals(record.tasks, evaluation.NEVER_BY_HAND)
    if never or "infra_validator" in refusing_steps(record):
        return (*compare, "this cannot be overridden by hand: change the spec, and run again")
    if record.runner == "kubeflow":
        return (*compare, "run the same date again after fixing the cause")
    return (*compare, f"bless the model on your responsibility: sangam bless {folder} --because REASON")


def _again(run: StoredRun) -> tuple[str, ...]:
    record = run.record
    if record and record.runner == "kubeflow":
        return (
            "run the same date again after fixing the cause: steps that succeeded come from the cache",
            f"`sangam status {record.name} --host URL` says which steps ran; the whole log is that of the step's pod",
        )
    if record and record.exit_code == ExitCode.MISTAKE:
        # The run's own copy of the spec may have the mistake.
        again = resume_command(run, "SPEC")
        return (f"the spec, an option or the logs are wrong: fix that first, then run again: {again}",)
    return (f"the same command resumes after the last finished step: {resume_command(run)}",)


def resume_command(run: StoredRun, spec: str = "") -> str:
    """Returns the command that repeats the run, by default of its own copy of the spec; capitals are unknown."""
    record = run.record
    spec = spec or (str(run.folder.spec) if run.folder.spec.is_file() else "SPEC")
    date = record.date if record else run.date or "YYYY-MM-DD"
    data = (record.data if record else read_journal(run.folder).data) or "DATA"
    return shlex.join(
        ["sangam", "run", spec, *(["--date", date] if date else []), "--data", data, "--root", run.root.uri]
    )

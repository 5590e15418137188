"""Judges what servers saw and scored: a sample of the requests of the run's date."""

import datetime
import posixpath
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sangam.components.reports.serving import Check, ServingVerdict
from sangam.components.reports.skew import ColumnSkew, Example, FeatureSkew, ScoreSkew
from sangam.components.skew.checking import check_features
from sangam.components.skew.rescoring import check_scores
from sangam.schemas.derived.days import parse_day, yesterday
from sangam.schemas.spec import Inputs, Spec
from sangam.schemas.spec.data import DayLogs, ServedLogs
from sangam.schemas.spec.release import DirectoryPush, SkewGate


class Declared(BaseModel):
    """What a spec says of its gates of skew.

    Attributes:
        gates: gates; each has its log.
        inputs: features, tasks and keys.
        logs: logs by day.
        redacted: columns that the log does not have as they were.
        versions: folder of versions, relative to the pipeline root.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    gates: tuple[SkewGate, ...]
    inputs: Inputs
    logs: DayLogs
    redacted: tuple[str, ...]
    versions: str


def declared(spec: Spec) -> Declared | None:
    """Returns what a valid spec says of skew; None without a gate."""
    logs = spec.logs_with_tables
    if not spec.skew_gates or not isinstance(logs, DayLogs):
        return None
    own = spec.data.log if isinstance(spec.data, ServedLogs) else None
    return Declared(
        gates=tuple(gate.model_copy(update={"log": gate.log or own}) for gate in spec.skew_gates),
        inputs=spec.inputs(),
        logs=logs,
        redacted=tuple(sorted(spec.serving.log.redact)) if spec.serving.log else (),
        versions=spec.push.folder if isinstance(spec.push, DirectoryPush) else "",
    )


def with_skew(verdict: ServingVerdict, given: Declared, date: str, data_root: str, root: str) -> ServingVerdict:
    """Returns a verdict with the checks of skew.

    Args:
        verdict: verdict of the other checks.
        given: what the spec says.
        date: YYYY-MM-DD; empty: yesterday, UTC.
        data_root: folder of the logs.
        root: pipeline root.

    Raises:
        UserError: a log or a version cannot be read.
    """
    day = parse_day(date) if date else yesterday(datetime.datetime.now(datetime.UTC).date())
    for gate in given.gates:
        log = posixpath.join(data_root, gate.log or "")
        check: Check | None
        if gate.skew == "features":
            features = check_features(given.inputs, given.logs, given.redacted, log, data_root, day, gate.requests)
            verdict = verdict.model_copy(update={"feature_skew": features})
            check, notes = feature_check(features, gate.at_most) if features else None, []
        else:
            scores = check_scores(log, Path(root, given.versions), day, gate.requests)
            verdict = verdict.model_copy(update={"score_skew": scores})
            check, notes = score_check(scores, gate.at_most) if scores else None, _left_out(scores)
        if check is None and not notes:
            notes = [f"skew of {gate.skew}: {log} has no requests of {day}: nothing was compared"]
        verdict = _with(verdict, check, notes)
    return verdict


def _with(verdict: ServingVerdict, check: Check | None, notes: Sequence[str]) -> ServingVerdict:
    """Returns a verdict with one more check, or none, and notes."""
    checks = [*verdict.checks, *([check] if check else [])]
    blessed = verdict.blessed and (check is None or check.passed)
    return verdict.model_copy(update={"checks": checks, "notes": [*verdict.notes, *notes], "blessed": blessed})


def _left_out(found: ScoreSkew | None) -> list[str]:
    left_out = found.left_out if found else {}
    return [f"skew of scores: {number:,} candidates were not scored again: {why}" for why, number in left_out.items()]


def feature_check(found: FeatureSkew, at_most: float) -> Check:
    """Judges the columns."""
    beyond = [column for column in found.columns if column.share > at_most]
    if not beyond:
        reason = f"no column differs from the logs in more than {at_most:.2%} of {found.rows:,} logged candidates"
        return Check(name="skew of features", passed=True, reason=reason)
    return Check(name="skew of features", passed=False, reason="; ".join(map(_of_column, beyond)))


def _of_column(column: ColumnSkew) -> str:
    cause = f", likely cause: {column.cause.kind}" if column.cause else ""
    detail = f" ({column.cause.detail})" if column.cause and column.cause.detail else ""
    told = f"'{column.column}' differs from the logs in {column.share:.2%} of {column.compared:,} values"
    return f"{told}{cause}{detail}; {_shown(column.examples[0])}"


def score_check(found: ScoreSkew, at_most: float) -> Check | None:
    """Judges the tasks; None if nothing could be scored again."""
    if not found.tasks:
        return None
    beyond = [task for task in found.tasks if task.share > at_most]
    if not beyond:
        reason = f"no task's scores differ from those given again in more than {at_most:.2%}"
        return Check(name="skew of scores", passed=True, reason=reason)
    told = [
        f"'{task.task}' differs from the score given again in {task.share:.2%} of {task.compared:,}, by up to "
        f"{task.largest:.2g}; {_shown(task.examples[0])}"
        for task in beyond
    ]
    return Check(name="skew of scores", passed=False, reason="; ".join(told))


def _shown(example: Example) -> str:
    keys = ", ".join(f"{name} {value}" for name, value in example.keys.items())
    return f"for example {keys}: {example.served} for {example.offline}"

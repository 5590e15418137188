"""Mistakes in gates of skew: no log, or nothing to compare it with."""

from collections.abc import Iterator

from sangam.schemas.derived.columns import serving_columns
from sangam.schemas.derived.sources import keys_of_log, tables_of
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs, ServedLogs
from sangam.schemas.spec.release import DirectoryPush, SkewGate


def skew_problems(spec: Spec, loc: Loc, gate: SkewGate) -> Iterator[Problem]:
    """Yields the mistakes of one gate."""
    if gate is not next(other for other in spec.skew_gates if other.skew == gate.skew):
        what = f"bounds the skew of {gate.skew}, as an earlier gate does (got a second one)"
        yield Problem(loc, what, "leave one of them out")
    logs = spec.logs_with_tables
    if not isinstance(logs, DayLogs):
        yield Problem((*loc, "skew"), f"needs logs by day (got data.kind '{spec.data.kind}')", "remove the gate")
        return
    if gate.log is None and not isinstance(spec.data, ServedLogs):
        yield Problem(
            (*loc, "log"), "is missing", "give the folder of the log of requests, relative to the data folder"
        )
    if gate.skew == "features":
        yield from _features(spec, loc, logs)
    elif not isinstance(spec.push, DirectoryPush) or spec.push.is_on_store:
        got = spec.push.path if isinstance(spec.push, DirectoryPush) else spec.push.kind
        yield Problem(
            (*loc, "skew"), f"needs the versions that were served (got push '{got}')", "push to a folder of the root"
        )


def _features(spec: Spec, loc: Loc, logs: DayLogs) -> Iterator[Problem]:
    tables = tables_of(logs)
    if not tables:
        yield Problem(
            (*loc, "skew"), "has nothing to compare with (got no source of kind table)", "declare one in data.sources"
        )
    redact = spec.serving.log.redact if spec.serving.log else {}
    known = {column.name for column in serving_columns(spec)} - redact.keys()
    keys = {key.name for source in tables.values() for key in keys_of_log(source)}
    if absent := sorted(keys - known):
        yield Problem(
            (*loc, "skew"),
            f"needs the tables' keys in requests (got {listed(absent)})",
            f"requests have: {listed(sorted(known))}; let a feature read the keys, and do not redact them",
        )

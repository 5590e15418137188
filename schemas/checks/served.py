"""Mistakes in `serving.log`, `serving.shadow` and data of kind `served`: what the log lacks, or has under a hash."""

from collections.abc import Iterator

from sangam.schemas.contracts.request_log import AT, CANDIDATE, DELTA, OWN, SCORE, SHADOW_SCORE, taken
from sangam.schemas.derived.columns import columns, serving_columns
from sangam.schemas.derived.sources import columns_read_of_log
from sangam.schemas.problems import Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import ServedLogs
from sangam.schemas.spec.release import DirectoryPush
from sangam.schemas.spec.sources import StateTable


def served_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of them."""
    yield from _log(spec)
    yield from _shadow(spec)
    if isinstance(spec.data, ServedLogs):
        yield from _data(spec, spec.data)


def _log(spec: Spec) -> Iterator[Problem]:
    log = spec.serving.log
    if log is None:
        return
    read = {column.name: column for column in serving_columns(spec)}
    if names := taken(read):
        yield Problem(
            ("serving", "log"),
            f"has columns of its own with these names (got {listed(names)})",
            "read columns of other names",
        )
    for name, treatment in log.redact.items():
        place = ("serving", "log", "redact", name)
        if name not in read:
            yield Problem(place, f"is no column of requests (got '{name}')", f"requests have: {listed(sorted(read))}")
        elif treatment == "hash" and read[name].type == "float":
            yield Problem(place, "is a float (got hash)", "drop it, or leave it as it is: only ids are hashed")


def _shadow(spec: Spec) -> Iterator[Problem]:
    log, shadow = spec.serving.log, spec.serving.shadow
    if shadow is None:
        return
    if log is None:
        yield Problem(
            ("serving", "shadow"),
            "needs the log of requests, which has its scores (got no serving.log)",
            f"declare it, for example log: {{share: {shadow.share:g}}}",
        )
    elif shadow.share > log.share:
        yield Problem(
            ("serving", "shadow", "share"),
            f"is larger than the share that is logged (got {shadow.share:g} of {log.share:g})",
            f"at most {log.share:g}, or raise serving.log.share",
        )
    elif not isinstance(spec.push, DirectoryPush) or spec.push.after is None:
        yield Problem(
            ("serving", "shadow"), "has no effect: no version is pushed into the shadow", "add push.after: shadow"
        )


def _data(spec: Spec, data: ServedLogs) -> Iterator[Problem]:
    if data.format == "prediction_log":
        yield from _prediction_log(spec, data)
        return
    requested = {column.name for column in serving_columns(spec)}
    scores = {f"{begin}{task}" for task in spec.tasks for begin in (SCORE, SHADOW_SCORE)}
    known = {*requested, *OWN, *scores, spec.event_time or AT}
    for column in columns_read_of_log(data.parts, columns(spec)):
        if column.name not in known:
            yield Problem(
                ("data",),
                f"has no column '{column.name}', which no request has (got {listed(sorted(known))})",
                "take it from a source of kind actions, or name one of these",
            )
    yield from _tables(data)
    redact = spec.serving.log.redact if spec.serving.log else {}
    for name in sorted(requested & redact.keys()):
        yield Problem(
            ("serving", "log", "redact", name),
            f"is a feature's column of data of kind served (got {redact[name]}), whose values requests have",
            "remove it, or train on other logs",
        )


def _prediction_log(spec: Spec, data: ServedLogs) -> Iterator[Problem]:
    for column in columns_read_of_log(data.parts, columns(spec)):
        if column.name in (DELTA, CANDIDATE):
            yield Problem(
                ("data", "format"),
                f"has no column '{column.name}' (got prediction_log): TensorFlow Serving does not log it",
                "read another column",
            )
    yield from _tables(data)


def _tables(data: ServedLogs) -> Iterator[Problem]:
    for name, source in data.sources.items():
        if not isinstance(source, StateTable):
            continue
        for setting, default in (("missing", "keep"), ("marker", None)):
            if (got := getattr(source, setting)) != default:
                yield Problem(
                    ("data", "sources", name, setting),
                    f"has no effect on a table of data of kind served, which is not joined (got '{got}')",
                    "remove it: the features are those that the server saw",
                )

"""Mistakes in `serving.log` and in data of kind `served`: columns that the log does not have, or has under a hash."""

from collections.abc import Iterator

from sangam.schemas.contracts.request_log import AT, OWN, SCORE, taken
from sangam.schemas.derived.columns import columns, serving_columns
from sangam.schemas.derived.sources import columns_read_of_log
from sangam.schemas.problems import Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import ServedLogs
from sangam.schemas.spec.sources import StateTable


def served_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of both."""
    yield from _log(spec)
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


def _data(spec: Spec, data: ServedLogs) -> Iterator[Problem]:
    requested = {column.name for column in serving_columns(spec)}
    scores = {f"{SCORE}{task}" for task in spec.tasks}
    known = {*requested, *OWN, *scores, spec.event_time or AT}
    for column in columns_read_of_log(data.parts, columns(spec)):
        if column.name not in known:
            yield Problem(
                ("data",),
                f"has no column '{column.name}', which no request has (got {listed(sorted(known))})",
                "take it from a source of kind actions, or name one of these",
            )
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
    redact = spec.serving.log.redact if spec.serving.log else {}
    for name in sorted(requested & redact.keys()):
        yield Problem(
            ("serving", "log", "redact", name),
            f"is a feature's column of data of kind served (got {redact[name]}), whose values requests have",
            "remove it, or train on other logs",
        )

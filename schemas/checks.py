"""Mistakes that only the whole spec shows: names that lead nowhere, contradictions, settings without effect."""

from collections.abc import Iterator

from typing_extensions import assert_never

from schemas.cluster_checks import cluster_problems
from schemas.columns import Column, feature_columns, label_column, serving_columns
from schemas.data import DayLogs, SplitLogs
from schemas.data_checks import data_problems
from schemas.encoders import PositionalEncoder
from schemas.features import EmbeddedFeature, IdFeature, IdsFeature, NumericFeature, SequenceFeature
from schemas.problems import Problem, listed
from schemas.rank_inputs import clashes
from schemas.release_checks import release_problems
from schemas.spec import Spec

MAX_TABLES = 2047
"""The tag of an id's table has eleven bits of its key."""


def find_problems(spec: Spec) -> list[Problem]:
    """Returns every mistake in a spec whose parts are each well formed."""
    found: list[Problem] = []
    for check in (
        _names,
        _columns,
        _tables,
        _numerics,
        _embedded,
        _data,
        data_problems,
        _rank_inputs,
        release_problems,
        cluster_problems,
        _time,
        _eviction,
        _incremental,
    ):
        found.extend(check(spec))
    return found


def _names(spec: Spec) -> Iterator[Problem]:
    for name in sorted(set(spec.features) & set(spec.tasks)):
        yield Problem(("tasks", name), f"is also the name of a feature (got '{name}')", "give one of them another name")


def _columns(spec: Spec) -> Iterator[Problem]:
    labels = {spec.label_of(task): task for task in spec.tasks}
    readers: dict[str, tuple[str, Column]] = {}
    for name in spec.features:
        column = feature_columns(spec, name)[0]
        if column.name in labels:
            yield Problem(
                ("features", name, "column") if getattr(spec.features[name], "column", None) else ("features", name),
                f"reads the label of task '{labels[column.name]}' (got '{column.name}')",
                "a label is known only after the event and must not be a feature",
            )
        first, known = readers.setdefault(column.name, (name, column))
        if (known.type, known.is_list) != (column.type, column.is_list):
            yield Problem(
                ("features", name),
                f"reads column '{column.name}' as {_kind(column)}, feature '{first}' as {_kind(known)}",
                "a column has one type",
            )
    label_types: dict[str, tuple[str, Column]] = {}
    for name in spec.tasks:
        column = label_column(spec, name)
        first, known = label_types.setdefault(column.name, (name, column))
        if known != column:
            yield Problem(
                ("tasks", name),
                f"reads label '{column.name}' as {_kind(column)}, task '{first}' as {_kind(known)}",
                "a column has one type",
            )


def _kind(column: Column) -> str:
    return f"list of {column.type}" if column.is_list else column.type


def _tables(spec: Spec) -> Iterator[Problem]:
    used = set()
    for name in spec.features:
        table = spec.table_of(name)
        if table is None:
            continue
        used.add(table)
        if table not in spec.tables:
            yield Problem(
                ("features", name, "table"),
                f"no such table (got '{table}')",
                f"declared tables: {listed(list(spec.tables))}",
            )
    if len(spec.tables) > MAX_TABLES:
        yield Problem(
            ("tables",), f"are too many (got {len(spec.tables)})", f"at most {MAX_TABLES}; let features share tables"
        )
    for name in sorted(set(spec.tables) - used):
        yield Problem(
            ("tables", name), f"has no effect: no feature uses it (got '{name}')", "remove it, or name it in a feature"
        )


def _numerics(spec: Spec) -> Iterator[Problem]:
    for name, feature in spec.features.items():
        if not isinstance(feature, NumericFeature):
            continue
        if feature.clip and feature.clip[0] >= feature.clip[1]:
            yield Problem(
                ("features", name, "clip"),
                f"leaves nothing (got {list(feature.clip)})",
                "write [low, high], low < high",
            )
        if feature.log and (feature.clip is None or feature.clip[0] < 0):
            yield Problem(
                ("features", name, "log"),
                f"log(1 + x) needs x >= 0 (got clip {list(feature.clip) if feature.clip else None})",
                "declare clip: [low, high] with low >= 0",
            )
        if feature.clip and feature.missing is not None and not feature.clip[0] <= feature.missing <= feature.clip[1]:
            yield Problem(
                ("features", name, "missing"),
                f"would be clipped (got {feature.missing:g})",
                f"from {feature.clip[0]:g} to {feature.clip[1]:g}, as clip says",
            )


def _embedded(spec: Spec) -> Iterator[Problem]:
    types: dict[str, tuple[str, EmbeddedFeature]] = {}
    for name, feature in spec.features.items():
        if not isinstance(feature, EmbeddedFeature):
            continue
        first, known = types.setdefault(feature.table, (name, feature))
        if known.type != feature.type:
            yield Problem(
                ("features", name, "type"),
                f"table '{feature.table}' holds {known.type} ids of feature '{first}' (got {feature.type})",
                "all features of a table have ids of one type",
            )
        match feature:
            case IdFeature():
                wanted = str if feature.type == "string" else int
                if feature.missing is not None and not isinstance(feature.missing, wanted):
                    yield Problem(
                        ("features", name, "missing"),
                        f"is no {feature.type} (got {feature.missing!r})",
                        f"a {feature.type}",
                    )
            case SequenceFeature():
                if isinstance(feature.encoder, PositionalEncoder) and feature.max_length == 1:
                    yield Problem(
                        ("features", name, "encoder"),
                        "has no effect: one position has nothing to weigh (got 'positional' with max_length 1)",
                        "leave it out, or raise max_length",
                    )
            case IdsFeature():
                if feature.combiner != "sum" and feature.max_values == 1:
                    yield Problem(
                        ("features", name, "combiner"),
                        f"has no effect on one value (got '{feature.combiner}' with max_values 1)",
                        "use sum, or raise max_values",
                    )
            case _:
                assert_never(feature)


def _data(spec: Spec) -> Iterator[Problem]:
    lists = [name for name in spec.features if any(column.is_list for column in feature_columns(spec, name))]
    separator = spec.data.list_separator
    if separator is None and spec.data.format == "csv" and lists:
        yield Problem(
            ("data",), f"CSV needs a list_separator for {listed(lists)} (got none)", "for example list_separator: '|'"
        )
    if separator is not None and (spec.data.format != "csv" or not lists):
        yield Problem(
            ("data", "list_separator"),
            f"has no effect (got '{separator}')",
            "remove it: only CSV with multi-valued features needs it",
        )
    if isinstance(spec.data, SplitLogs):
        seen: dict[str, str] = {}
        for split, pattern in spec.data.splits.model_dump(exclude_none=True).items():
            if pattern in seen:
                yield Problem(
                    ("data", "splits", split),
                    f"is the same files as {seen[pattern]} (got '{pattern}')",
                    "a split must not be trained on and judged on",
                )
            seen.setdefault(pattern, split)


def _time(spec: Spec) -> Iterator[Problem]:
    wanting = sorted(name for name, table in spec.tables.items() if table.needs_event_time)
    if wanting and spec.event_time is None:
        yield Problem(
            ("tables", wanting[0]),
            "rows go by the time of events, and none is declared (got no event_time)",
            "declare event_time: the column with seconds since 1970; or evict: least_frequent",
        )
    if spec.event_time and not wanting:
        yield Problem(
            ("event_time",),
            f"has no effect: no table expires or evicts by time (got '{spec.event_time}')",
            "remove it, or declare expire_after_days or capacity for a table",
        )
    if spec.event_time in {spec.label_of(task) for task in spec.tasks}:
        yield Problem(("event_time",), f"is a label (got '{spec.event_time}')", "name a column of its own")
    for name in spec.features:
        column = feature_columns(spec, name)[0]
        if column.name == spec.event_time and (column.type, column.is_list) != ("int", False):
            yield Problem(
                ("event_time",),
                f"feature '{name}' reads it as {_kind(column)} (got '{spec.event_time}')",
                "the time of an event is an int: seconds since 1970",
            )
    if spec.training.mode == "incremental" and not isinstance(spec.data, DayLogs):
        yield Problem(
            ("training", "mode"),
            f"needs logs by day (got 'incremental' with data of kind {spec.data.kind})",
            "use full, or declare data of kind days",
        )


def _rank_inputs(spec: Spec) -> Iterator[Problem]:
    for first, second, name in clashes(serving_columns(spec)):
        yield Problem(
            ("features",),
            f"columns '{first}' and '{second}' would both be input '{name}' of the served model (got both)",
            "rename one of them in the logs",
        )


def _incremental(spec: Spec) -> Iterator[Problem]:
    if spec.training.incremental_epochs is not None and spec.training.mode != "incremental":
        yield Problem(
            ("training", "incremental_epochs"),
            f"has no effect with mode {spec.training.mode} (got {spec.training.incremental_epochs})",
            "remove it, or declare mode: incremental",
        )


def _eviction(spec: Spec) -> Iterator[Problem]:
    declared = "evict_every_steps" in spec.training.model_fields_set
    if declared and not any(table.keeps_books for table in spec.tables.values()):
        yield Problem(
            ("training", "evict_every_steps"),
            f"has no effect: no table gives up rows (got {spec.training.evict_every_steps})",
            "remove it, or declare expire_after_days or capacity for a table",
        )

"""Mistakes across the sections of a spec: unknown names, contradictions, settings without effect."""

from collections.abc import Iterator

from sangam.schemas.checks.beam import beam_problems
from sangam.schemas.checks.cluster import cluster_problems
from sangam.schemas.checks.columns import column_problems
from sangam.schemas.checks.data import data_problems
from sangam.schemas.checks.evaluation_parts import evaluation_part_problems
from sangam.schemas.checks.features import feature_problems
from sangam.schemas.checks.history import history_problems
from sangam.schemas.checks.models import model_problems
from sangam.schemas.checks.monitoring import monitoring_problems
from sangam.schemas.checks.negatives import negatives_problems
from sangam.schemas.checks.online import online_problems
from sangam.schemas.checks.parts import declaration_problems, part_problems
from sangam.schemas.checks.placement import placement_problems
from sangam.schemas.checks.release import release_problems
from sangam.schemas.checks.served import served_problems
from sangam.schemas.checks.sources import source_problems
from sangam.schemas.checks.sync import sync_problems
from sangam.schemas.checks.tasks import task_problems
from sangam.schemas.checks.training import training_problems
from sangam.schemas.derived.columns import feature_columns
from sangam.schemas.derived.plan import crowded_group
from sangam.schemas.derived.sources import sources_of
from sangam.schemas.problems import Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs, SplitLogs


def find_problems(spec: Spec) -> list[Problem]:
    """Returns every mistake in a spec whose parts are each valid."""
    if problems := list(declaration_problems(spec)):
        return problems
    for check in (
        feature_problems,
        history_problems,
        task_problems,
        column_problems,
        model_problems,
        _data,
        data_problems,
        negatives_problems,
        source_problems,
        served_problems,
        release_problems,
        evaluation_part_problems,
        cluster_problems,
        beam_problems,
        _time,
        _eviction,
        _capacity,
        _incremental,
        placement_problems,
        training_problems,
        sync_problems,
        online_problems,
        monitoring_problems,
    ):
        problems.extend(check(spec))
    return problems or list(part_problems(spec))


def _data(spec: Spec) -> Iterator[Problem]:
    lists = [name for name in spec.features if any(column.is_list for column in feature_columns(spec, name))]
    separator = spec.data.list_separator
    is_csv = "csv" in (spec.data.format, *(source.format for source in sources_of(spec.logs_with_tables).values()))
    if separator is None and is_csv and lists:
        yield Problem(
            ("data",), f"CSV needs a list_separator for {listed(lists)} (got none)", "for example list_separator: '|'"
        )
    if separator is not None and not (is_csv and lists):
        yield Problem(
            ("data", "list_separator"),
            f"has no effect (got '{separator}')",
            "remove it: only CSV with multi-valued features needs it",
        )
    if isinstance(spec.data, SplitLogs):
        seen: dict[str, str] = {}
        for split, pattern in spec.data.splits.patterns.items():
            if pattern in seen:
                yield Problem(
                    ("data", "splits", split),
                    f"has the same files as {seen[pattern]} (got '{pattern}')",
                    "no split may be both trained on and judged on",
                )
            seen.setdefault(pattern, split)


def _time(spec: Spec) -> Iterator[Problem]:
    timed = sorted(name for name, table in spec.tables.items() if table.needs_event_time)
    if timed and spec.event_time is None:
        yield Problem(
            ("tables", timed[0]),
            "rows expire or are evicted by event time, and the spec has none (got no event_time)",
            "declare event_time: the column with seconds since 1970; or evict: least_frequent",
        )
    if spec.event_time and not timed and not sources_of(spec.logs) and not spec.online:
        yield Problem(
            ("event_time",),
            f"has no effect: no table expires or evicts by time, no source is joined (got '{spec.event_time}')",
            "remove it, or declare expire_after_days or capacity for a table, data.sources, or online",
        )
    if spec.training.mode == "incremental" and not isinstance(spec.logs, DayLogs):
        yield Problem(
            ("training", "mode"),
            f"needs logs by day (got 'incremental' with data of kind {spec.data.kind})",
            "use full, or declare data of kind days, or of kind table with `eval: {days: 1}`",
        )


def _incremental(spec: Spec) -> Iterator[Problem]:
    if spec.training.incremental_epochs is not None and spec.training.mode != "incremental":
        yield Problem(
            ("training", "incremental_epochs"),
            f"has no effect with mode {spec.training.mode} (got {spec.training.incremental_epochs})",
            "remove it, or declare mode: incremental",
        )


def _eviction(spec: Spec) -> Iterator[Problem]:
    is_given = "evict_every_steps" in spec.training.model_fields_set
    if is_given and not any(table.tracks_usage for table in spec.tables.values()):
        yield Problem(
            ("training", "evict_every_steps"),
            f"has no effect: no table removes rows (got {spec.training.evict_every_steps})",
            "remove it, or declare expire_after_days or capacity for a table",
        )


def _capacity(spec: Spec) -> Iterator[Problem]:
    if not spec.tables.keys() >= spec.table_tags().keys():
        return  # A feature's table is unknown, which another check tells.
    rows = {name: table.capacity.rows for name, table in spec.tables.items() if table.capacity}
    if crowded := crowded_group(spec, rows, spec.num_parameter_servers or spec.cluster.ranks):
        yield Problem(("tables", crowded.tables[0], "capacity", "rows"), crowded.problem, crowded.fix)

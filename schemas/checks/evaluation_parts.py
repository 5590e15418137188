"""Mistakes in metrics and slices of one's own: their names, and what they read."""

from collections.abc import Iterator

from sangam.schemas.derived.columns import columns
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.judging import Slice
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.metrics import is_taken
from sangam.schemas.spec.release import name_of


def evaluation_part_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in `evaluation.metrics` and in slices that are no features."""
    yield from _metrics(spec)
    yield from _slices(spec)


def _slices(spec: Spec) -> Iterator[Problem]:
    found: list[tuple[Loc, Slice]] = [
        (("evaluation", "slices", index, position), part)
        for index, parts in enumerate(spec.evaluation.slices)
        for position, part in enumerate(parts)
        if isinstance(part, Slice)
    ]
    read = {column.name: column for column in columns(spec)} if found else {}
    known: dict[str, Slice] = {}
    for loc, part in found:
        name = name_of(part)
        if name in spec.features or name in spec.keys or known.setdefault(name, part) != part:
            yield Problem(
                loc, f"is also the name of a feature, a key or another slice (got '{name}')", "give it another name"
            )
        for wanted in part.reads():
            column = read.get(wanted.name)
            if column is None or (column.type, column.is_list) != (wanted.type, wanted.is_list):
                yield Problem(loc, _unread(wanted, column), "read it by a feature, or by a key")


def _unread(wanted: Column, column: Column | None) -> str:
    if column is None:
        return f"reads a column that no feature, task or key reads (got '{wanted.name}')"
    read, asked = (f"{'a list of ' if each.is_list else ''}{each.type}" for each in (column, wanted))
    return f"reads column '{wanted.name}' as {asked}, and the spec as {read} (got '{wanted.name}')"


def _metrics(spec: Spec) -> Iterator[Problem]:
    for name, metric in spec.evaluation.metrics.items():
        loc: Loc = ("evaluation", "metrics", name)
        if is_taken(name):
            yield Problem(loc, f"is the name of a value that reports have (got '{name}')", "give it another name")
        elif not any(task.kind in metric.task_kinds for task in spec.tasks.values()):
            yield Problem(
                loc,
                f"has no effect: no task is of its kinds, {listed(list(metric.task_kinds))} (got '{name}')",
                "remove it",
            )

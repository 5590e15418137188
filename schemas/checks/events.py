"""Mistakes in what a sequence reads of its events besides their ids."""

from collections.abc import Iterator

from sangam.schemas.problems import Loc, Problem
from sangam.schemas.spec import Spec
from sangam.schemas.spec.events import EventId
from sangam.schemas.spec.features import SequenceFeature


def event_problems(spec: Spec, loc: Loc, name: str, feature: SequenceFeature) -> Iterator[Problem]:
    """Yields every mistake in `beside`, `times` and `positions` of a sequence."""
    yield from _columns(loc, name, feature)
    yield from _widths(spec, loc, feature)
    if feature.positions and feature.max_length == 1:
        yield Problem(
            (*loc, "positions"),
            "has no effect: with one position there is nothing to tell apart (got true with max_length 1)",
            "leave it out, or raise max_length",
        )


def _columns(loc: Loc, name: str, feature: SequenceFeature) -> Iterator[Problem]:
    """Yields columns that are read twice: they would tell nothing more of an event."""
    readers: dict[str, Loc] = {feature.column or name: ("column",)}
    read: list[tuple[Loc, str]] = [(("beside", part), each.column or part) for part, each in feature.beside.items()]
    if feature.times:
        read += [(("times", "column"), feature.times.column), (("times", "at"), feature.times.at)]
    for where, column in read:
        first = readers.setdefault(column, where)
        if first != where:
            yield Problem(
                (*loc, *where),
                f"reads the same column as {'.'.join(map(str, first))} (got '{column}')",
                "a column of its own",
            )


def _widths(spec: Spec, loc: Loc, feature: SequenceFeature) -> Iterator[Problem]:
    own = spec.tables.get(feature.table)
    for part, each in feature.beside.items():
        other = spec.tables.get(each.table) if isinstance(each, EventId) else None
        if own and other and own.dim != other.dim:
            yield Problem(
                (*loc, "beside", part, "table"),
                f"has another width than the sequence's table '{feature.table}' (got {other.dim} of {own.dim})",
                "rows of an event are added: give both tables one dim",
            )

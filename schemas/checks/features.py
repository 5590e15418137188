"""Mistakes in features: values that would be clipped, tables with two kinds of ids, settings without effect."""

from collections.abc import Iterator

from sangam.schemas.checks.events import event_problems
from sangam.schemas.derived.columns import is_bias
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.encoders import CandidateEncoder, PositionalEncoder, TransformerEncoder
from sangam.schemas.spec.events import EventId
from sangam.schemas.spec.feature_bases import Clip, Missing, NumberFeature
from sangam.schemas.spec.features import (
    AgeFeature,
    BucketsFeature,
    CountFeature,
    CrossFeature,
    Feature,
    IdFeature,
    IdsFeature,
    ListFeature,
    MatchFeature,
    NumericFeature,
    RateFeature,
    SequenceFeature,
    TimeFeature,
    VectorFeature,
)

MAX_TABLES = 2047
"""Most tables: a table's tag is eleven bits of its keys."""


def feature_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in features and in the tables that they share."""
    yield from _tables(spec)
    yield from _kinds_of_ids(spec)
    for name, feature in spec.features.items():
        yield from _feature(spec, name, feature)
    if all(is_bias(feature) for feature in spec.features.values()):
        yield Problem(
            ("features",),
            f"leave no input for predictions: all have at_serving (got {listed(list(spec.features))})",
            "declare a feature without it",
        )


def _tables(spec: Spec) -> Iterator[Problem]:
    used = set()
    for loc, table, _ in _with_tables(spec):
        used.add(table)
        if table not in spec.tables:
            yield Problem(
                (*loc, "table"),
                f"no such table (got '{table}')",
                f"tables of the spec: {listed(list(spec.tables))}",
            )
    if len(spec.tables) > MAX_TABLES:
        yield Problem(
            ("tables",), f"are too many (got {len(spec.tables)})", f"at most {MAX_TABLES}; let features share tables"
        )
    for name in sorted(set(spec.tables) - used):
        yield Problem(
            ("tables", name), f"has no effect: no feature uses it (got '{name}')", "remove it, or name it in a feature"
        )


def _kinds_of_ids(spec: Spec) -> Iterator[Problem]:
    """Yields features whose ids are of another kind than their table's: hour 3 and bucket 3 would be one row."""
    first_of: dict[str, tuple[str, str]] = {}
    for loc, table, reader in _with_tables(spec):
        kind = _kind_of_ids(reader)
        known, first = first_of.setdefault(table, (kind, str(loc[1])))
        if known != kind:
            same = isinstance(reader, IdFeature | ListFeature | EventId)
            yield Problem(
                (*loc, "type" if same else "table"),
                f"table '{table}' holds {known} of feature '{first}' (got {kind.removesuffix(' ids')})",
                "all features of a table have ids of one type",
            )


def _with_tables(spec: Spec) -> Iterator[tuple[Loc, str, Feature | EventId]]:
    """Yields the place and the table of everything that becomes rows."""
    for name, feature in spec.features.items():
        loc: Loc = ("features", name)
        if table := feature.table_name():
            yield loc, table, feature
        if isinstance(feature, SequenceFeature):
            for part, each in feature.beside.items():
                if isinstance(each, EventId):
                    yield (*loc, "beside", part), each.table, each


def _kind_of_ids(feature: Feature | EventId) -> str:
    match feature:
        case IdFeature() | IdsFeature() | SequenceFeature() | EventId():
            return f"{feature.type} ids"
        case CrossFeature():
            return f"pairs of {' and '.join(kind for _, kind in sorted(feature.columns.items()))}"
        case BucketsFeature():
            return f"{feature.num_buckets} buckets"
        case TimeFeature():
            return f"{feature.part}s"
        case _:
            return f"ids of {feature.kind}" if feature.table_name() else "floats"


def _feature(spec: Spec, name: str, feature: Feature) -> Iterator[Problem]:
    loc: Loc = ("features", name)
    match feature:
        case NumericFeature():
            yield from _numeric(loc, feature)
        case AgeFeature():
            yield from _age(loc, feature)
        case BucketsFeature():
            yield from _missing_twice(loc, feature)
            yield from _missing_row(loc, feature)
        case TimeFeature():
            yield from _missing_row(loc, feature)
        case IdFeature():
            yield from _missing_twice(loc, feature)
            for member in ("missing", "at_serving"):
                value, wanted = getattr(feature, member), str if feature.type == "string" else int
                if value is not None and not isinstance(value, wanted):
                    yield Problem((*loc, member), f"is not of type {feature.type} (got {value!r})", f"a {feature.type}")
        case IdsFeature():
            if feature.combiner != "sum" and feature.max_values == 1:
                yield Problem(
                    (*loc, "combiner"),
                    f"has no effect on one value (got '{feature.combiner}' with max_values 1)",
                    "use sum, or raise max_values",
                )
        case SequenceFeature():
            yield from _encoder(spec, loc, feature)
            yield from _target(spec, (*loc, "encoder", "target"), feature)
            yield from event_problems(spec, loc, name, feature)
        case MatchFeature():
            if feature.column == feature.among:
                yield Problem((*loc, "among"), f"is the id's own column (got '{feature.among}')", "a column of lists")
        case VectorFeature():
            if feature.normalize == "l2" and feature.dim == 1:
                yield Problem(
                    (*loc, "normalize"), "leaves only the sign (got 'l2' with dim 1)", "leave it out, or use numeric"
                )
        case RateFeature() | CountFeature():
            if feature.clip and feature.clip[0] >= feature.clip[1]:
                yield _empty_clip(loc, feature.clip)
            yield from _encoding(loc, feature)


def _numeric(loc: Loc, feature: NumericFeature) -> Iterator[Problem]:
    if feature.clip and feature.clip[0] >= feature.clip[1]:
        yield _empty_clip(loc, feature.clip)
    if feature.log and (feature.clip is None or feature.clip[0] < 0):
        yield Problem(
            (*loc, "log"),
            f"log(1 + x) needs x >= 0 (got clip {list(feature.clip) if feature.clip else None})",
            "declare clip: [low, high] with low >= 0",
        )
    for member, value in (("missing", feature.missing), ("at_serving", feature.at_serving)):
        yield from _clipped(loc, member, value, feature.clip)
    yield from _encoding(loc, feature)


def _age(loc: Loc, feature: AgeFeature) -> Iterator[Problem]:
    if feature.since == feature.at:
        yield Problem(
            (*loc, "since"), f"is the same column as at: the age would be 0 (got '{feature.at}')", "name two columns"
        )
    if feature.clip and feature.clip[0] >= feature.clip[1]:
        yield _empty_clip(loc, feature.clip)
    elif feature.clip and feature.clip[0] < 0:
        yield Problem(
            (*loc, "clip"),
            f"starts below 0, and ages are at least 0 (got {list(feature.clip)})",
            "write [low, high], low >= 0",
        )
    if isinstance(feature.missing, float) and feature.missing < 0:
        yield Problem(
            (*loc, "missing"), f"is not an age (got {feature.missing:g})", "at least 0, in the feature's unit"
        )
    else:
        yield from _clipped(loc, "missing", feature.missing, feature.clip)
    yield from _encoding(loc, feature)


def _encoding(loc: Loc, feature: NumberFeature) -> Iterator[Problem]:
    if feature.is_binned and "normalize" in feature.model_fields_set:
        yield Problem(
            (*loc, "normalize"),
            f"has no effect: the bins of piecewise_linear already scale the number (got '{feature.normalize}')",
            "leave it out",
        )


def _empty_clip(loc: Loc, clip: Clip) -> Problem:
    return Problem((*loc, "clip"), f"is an empty range (got {list(clip)})", "write [low, high], low < high")


def _clipped(loc: Loc, member: str, value: Missing | None, clip: Clip | None) -> Iterator[Problem]:
    if clip and isinstance(value, float) and not clip[0] <= value <= clip[1]:
        yield Problem(
            (*loc, member), f"would be clipped (got {value:g})", f"from {clip[0]:g} to {clip[1]:g}, the range of clip"
        )


def _missing_twice(loc: Loc, feature: BucketsFeature | IdFeature) -> Iterator[Problem]:
    if feature.missing is not None and feature.missing_row:
        yield Problem(
            (*loc, "missing_row"),
            f"has no effect: missing already replaces a missing value (got both, missing {feature.missing!r})",
            "keep one of them",
        )


def _missing_row(loc: Loc, feature: BucketsFeature | TimeFeature) -> Iterator[Problem]:
    if feature.missing_row and feature.table is None:
        use = "declare a table" if isinstance(feature, TimeFeature) else "declare a table, or missing: a number"
        yield Problem((*loc, "missing_row"), "needs rows (got true without a table)", use)


def _encoder(spec: Spec, loc: Loc, feature: SequenceFeature) -> Iterator[Problem]:
    loc = (*loc, "encoder")
    table = spec.tables.get(feature.table)
    match feature.encoder:
        case PositionalEncoder() if feature.max_length == 1:
            yield _one_position(loc, "weigh", "positional")
        case TransformerEncoder() if feature.max_length == 1:
            yield _one_position(loc, "attend to", "transformer")
    match feature.encoder:
        case TransformerEncoder(num_heads=heads) | CandidateEncoder(num_heads=heads):
            if table and table.dim % heads:
                yield Problem(
                    (*loc, "num_heads"),
                    f"does not divide the width of table '{feature.table}' (got {heads} of {table.dim})",
                    f"a divisor of {table.dim}",
                )


def _target(spec: Spec, loc: Loc, feature: SequenceFeature) -> Iterator[Problem]:
    """Yields mistakes in the target of an encoder, a feature of one id and the sequence's width."""
    target, table = feature.encoder.attends_to(), spec.tables.get(feature.table)
    if target is None:
        return
    ones = [name for name, other in spec.features.items() if other.table_name() and not other.is_list()]
    if target not in ones:
        yield Problem(loc, f"no such feature of one id (got '{target}')", f"features of one id: {listed(ones)}")
        return
    other = spec.tables.get(str(spec.table_of(target)))
    if table and other and table.dim != other.dim:
        yield Problem(
            loc,
            f"has another width than the sequence (got {other.dim} for '{target}', {table.dim} for the sequence's "
            f"table '{feature.table}')",
            "give both tables one dim, or use one table",
        )


def _one_position(loc: Loc, verb: str, kind: str) -> Problem:
    return Problem(
        loc,
        f"has no effect: with one position there is nothing to {verb} (got '{kind}' with max_length 1)",
        "leave it out, or raise max_length",
    )

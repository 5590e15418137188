"""The search that `tune: auto` prepares from a spec: ranges that are usually worth trying, like a user's own.

docs/quality.md has the measurements that the choices follow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sangam.schemas.derived import search_crosses
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.features import OneNumber
from sangam.schemas.spec.models import Aitm, Esmm
from sangam.schemas.spec.sync import Async, Shadow
from sangam.schemas.spec.tasks import BinaryTask
from sangam.schemas.spec.tuning import Choice, FloatRange, Range, SuccessiveHalving, Together, Tuning

AS_DECLARED = "as declared"
"""Label of the set that changes nothing."""
_MINUTES = 60.0
_EPOCHS = 9
"""Three rungs of successive halving: after 1, 3 and 9 epochs."""
_DIMS = (4, 8, 16, 32)
_BATCHES = (128, 256, 512, 1024)
_DROPOUTS = (0.0, 0.1, 0.3)
_ROW_DROPOUTS = (0.1, 0.3, 0.5)
"""Shares of the floats of rows: of ids that evaluation has mostly not seen, large ones gain."""
_MEMBERS = 8
_TIMES = 4.0
"""Learning rates are searched from a quarter of the spec's to four times of it."""
_ROW_OPTIMIZERS = {"adagrad": 0.05, "adam": 0.002}
"""Learning rates of the kinds that rows are tried with, besides the spec's."""

_ENCODINGS: dict[str, dict[str, Any]] = {
    "standard": {"kind": "standard"},
    "few bins": {"kind": "piecewise_linear", "bins": 16},
    "wide piecewise linear": {"kind": "piecewise_linear", "bins": 64, "dim": 16},
    "periodic": {"kind": "periodic"},
}
_MODELS: dict[str, dict[str, Any]] = {
    "shared bottom": {"kind": "shared_bottom", "bottom_units": [256, 128], "tower_units": [32]},
    "mmoe": {"kind": "mmoe", "num_experts": 4, "expert_units": [64, 32], "tower_units": [16]},
    "wide mmoe": {"kind": "mmoe", "num_experts": 4, "expert_units": [128, 64], "tower_units": [32]},
    "ple": {"kind": "ple", "num_levels": 1, "expert_units": [64, 32], "tower_units": [16]},
}
_INTERACTIONS: dict[str, dict[str, Any] | None] = {"none": None, "dcn_v2": {"kind": "dcn_v2", "num_layers": 2}}


@dataclass(frozen=True)
class PreparedSearch:
    """A search with all its ranges.

    Attributes:
        tune: the section of the spec, with the prepared ranges.
        changes: changes of the spec for all trials, by path.
        starts: values of the trials after the first, each for some of the ranges; the others are as declared.
    """

    tune: Tuning
    changes: Mapping[str, Any] = field(default_factory=dict)
    starts: tuple[Mapping[str, Any], ...] = ()


def search_of(spec: Spec, tune: Tuning) -> PreparedSearch:
    """Returns the search of a section `tune`; without `auto` it is that section."""
    if not tune.auto:
        return PreparedSearch(tune)
    prepared = {key: range_ for key, range_ in _ranges(spec) if not _paths(range_) & tune.ranges.keys()}
    ranges = {**prepared, **tune.ranges}
    minutes = tune.minutes or (_MINUTES if tune.trials is None else None)
    pruning = tune.pruning or SuccessiveHalving(kind="successive_halving")
    starts: list[dict[str, Any]] = []
    for start in _good_starts():
        known = {key: value for key, value in start.items() if _has(ranges.get(key), value)}
        if known and known not in starts:
            starts.append(known)
    whole = tune.model_copy(update={"ranges": ranges, "minutes": minutes, "pruning": pruning})
    return PreparedSearch(whole, _changes(spec), tuple(starts))


def _changes(spec: Spec) -> dict[str, Any]:
    """Returns the changes of all trials: several epochs, of which the best counts."""
    changes: dict[str, Any] = {"training.epochs": max(_EPOCHS, spec.training.epochs)}
    if spec.training.early_stopping is None:
        changes["training.early_stopping"] = {"patience": 2, "refit": _may_refit(spec)}
    return changes


def _may_refit(spec: Spec) -> bool:
    """Says whether a run of the best spec may train on the validation rows too, once its epoch is known.

    They have to be the newest: rows that are like the others are learned by heart in passes over them alone.
    """
    tasks = [task for task in spec.ranker().tasks.values() if isinstance(task, BinaryTask)]
    return spec.validates_on_newest_rows and not any(task.keep_negatives for task in tasks)


def _good_starts() -> tuple[dict[str, Any], ...]:
    better = {"interaction": "dcn_v2", "model.dropout": 0.1}
    return (
        better,
        {**better, "crosses": search_crosses.PAIRS},
        {**better, "crosses": search_crosses.FAST_PAIRS, "rows": "adam"},
        {**better, "architecture": "ple", "model.dropout": 0.3},
        {**better, "encoding": "wide piecewise linear", "dims": "32"},
        {**better, "model.ensemble": {"members": _MEMBERS}},
    )


def _paths(range_: Range) -> set[str]:
    """Returns the paths that a set of values changes: of these, a range of the user's own takes the set's place."""
    return {path for values in range_.values.values() for path in values} if isinstance(range_, Together) else set()


def _has(searched: Range | None, value: Any) -> bool:
    match searched:
        case Together(values=values):
            return value in values
        case Choice(values=choices):
            return value in choices
        case _:
            return searched is not None


def _ranges(spec: Spec) -> Iterator[tuple[str, Range]]:
    """Yields the ranges by key, those first whose values matter most; a key of kind `together` is no path."""
    training = spec.training
    yield from ((key, _sets(sets)) for key, sets in search_crosses.sets_of(spec).items())
    if spec.tables:
        yield "rows", _sets(_row_optimizers(spec))
    if isinstance(spec.logs, DayLogs):
        yield "training.order", _choice(training.order, [None, "time", "shuffled"])
    yield from _models(spec)
    # A number with a scale of its own keeps it: bins have no use for it.
    numbers = [
        name
        for name, each in spec.features.items()
        if isinstance(each, OneNumber) and "normalize" not in each.model_fields_set
    ]
    if numbers:
        encoded = [f"features.{name}.encoding" for name in numbers]
        yield "encoding", _sets({label: dict.fromkeys(encoded, each) for label, each in _ENCODINGS.items()})
    if spec.tables:
        yield (
            "row dropout",
            _sets({f"{p}": {f"tables.{name}.dropout": p for name in spec.tables} for p in _ROW_DROPOUTS}),
        )
        yield "dims", _sets({f"{dim}": {f"tables.{name}.dim": dim for name in spec.tables} for dim in _DIMS})
    batches = sorted({*_BATCHES, training.batch_size_per_rank})
    yield "training.batch_size_per_rank", Choice(kind="choice", values=tuple(batches))
    yield "training.dense_optimizer.learning_rate", _around(training.dense_optimizer.learning_rate)
    if not isinstance(training.sync, Shadow | Async):
        own = None if training.average is None else training.average.model_dump(mode="json")
        yield "training.average", _choice(own, [None, {"kind": "ema"}])


def _row_optimizers(spec: Spec) -> dict[str, dict[str, Any]]:
    """Returns the spec's optimizer at two other rates, and others at three each."""
    own, path = spec.training.embedding_optimizer, "training.embedding_optimizer"
    sets: dict[str, dict[str, Any]] = {
        "slow": {f"{path}.learning_rate": own.learning_rate / _TIMES},
        "fast": {f"{path}.learning_rate": own.learning_rate * _TIMES},
    }
    for kind, rate in _ROW_OPTIMIZERS.items():
        if kind != own.kind:
            for label, by in {"slow ": 1.0 / _TIMES, "": 1.0, "fast ": _TIMES}.items():
                sets[label + kind] = {path: {"kind": kind, "learning_rate": rate * by}}
    return sets


def _models(spec: Spec) -> Iterator[tuple[str, Range]]:
    """Yields the ranges of the model. The architecture comes first: it replaces the rest of `model`."""
    own = spec.model.model_dump(mode="json")
    if not isinstance(spec.model, Esmm | Aitm):
        kept = {key: own[key] for key in ("interaction", "dropout", "ensemble")}
        yield "architecture", _sets({label: {"model": {**model, **kept}} for label, model in _MODELS.items()})
    yield "interaction", _sets({label: {"model.interaction": each} for label, each in _INTERACTIONS.items()})
    dropouts = sorted({*_DROPOUTS, own["dropout"]})
    yield "model.dropout", Choice(kind="choice", values=tuple(dropouts))
    yield "model.ensemble", _choice(own["ensemble"], [None, {"members": _MEMBERS}])


def _sets(values: Mapping[str, Mapping[str, Any]]) -> Together:
    return Together(kind="together", values={AS_DECLARED: {}, **{label: dict(each) for label, each in values.items()}})


def _choice(own: Any, values: list[Any]) -> Choice:
    return Choice(kind="choice", values=tuple(values if own in values else [own, *values]))


def _around(rate: float) -> FloatRange:
    return FloatRange(kind="float", low=rate / _TIMES, high=rate * _TIMES, log=True)

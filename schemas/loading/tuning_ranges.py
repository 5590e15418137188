"""Mistakes in the section `tune`: each end of each range must give a valid spec."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from sangam.schemas.derived.validation import validation_place
from sangam.schemas.loading.documents import Document, check_document, whole, with_values
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.tuning import (
    Choice,
    FloatRange,
    IntRange,
    MedianPruning,
    Range,
    SuccessiveHalving,
    Together,
    Tuning,
    metric_of,
)

_FIXED_TRAINING = {"mode", "incremental_epochs", "checkpoint", "seed"}
_TUNABLE = (
    "ranges are for features, model, tables, the weight and loss of tasks, and training (except "
    f"{listed(sorted(_FIXED_TRAINING))}): trials share their logs and their seed"
)


def tuning_problems(spec: Spec, document: Document) -> Iterator[Problem]:
    """Yields every mistake in the section `tune` of a spec that is otherwise valid.

    Args:
        spec: the spec.
        document: the file that the spec was read from, as plain data.
    """
    if spec.tune is None:
        return
    yield from _objective(spec, spec.tune)
    yield from _pruning(spec, spec.tune)
    if not has_validation(spec):
        place = validation_place(spec)
        yield Problem(
            ("tune",),
            f"has no split to compare trials on (got no {place.key})",
            f"declare {place.remedy}: trials must not see the split that gates judge",
        )
    if not spec.tune.auto and not spec.tune.ranges:
        yield Problem(("tune", "ranges"), "is missing", "declare ranges, or auto: true")
    document = {key: value for key, value in document.items() if key != "tune"}
    defaults = whole(spec)
    for path, range_ in spec.tune.ranges.items():
        problems = list(_range(path, range_, spec.tune))
        yield from problems or _ends(path, range_, document, defaults)


def has_validation(spec: Spec) -> bool:
    """Says whether some examples are neither trained on nor judged by gates."""
    return spec.logs.validation_days > 0 if isinstance(spec.logs, DayLogs) else spec.logs.splits.validation is not None


def _objective(spec: Spec, tune: Tuning) -> Iterator[Problem]:
    if tune.objective is not None and tune.objective not in spec.tasks:
        yield Problem(
            ("tune", "objective"),
            f"no such task (got '{tune.objective}')",
            f"tasks of the spec: {listed(list(spec.tasks))}",
        )
    others = sorted(name for name, task in spec.tasks.items() if metric_of(task) != "auc")
    if tune.objective is None and others:
        yield Problem(
            ("tune",),
            f"compares by the mean AUC of all tasks, and {listed(others)} have none (got no objective)",
            f"declare objective, the task to compare trials by: {listed(list(spec.tasks))}",
        )


def _pruning(spec: Spec, tune: Tuning) -> Iterator[Problem]:
    if tune.pruning is None or tune.auto:
        return
    match tune.pruning:
        case MedianPruning(after_epochs=spared):
            key = "after_epochs"
        case SuccessiveHalving(first_epochs=spared):
            key = "first_epochs"
        case _:
            assert_never(tune.pruning)
    epochs = tune.ranges.get("training.epochs")
    most = spec.training.epochs if epochs is None else max(_whole_numbers(epochs), default=0)
    if most <= spared:
        yield Problem(
            ("tune", "pruning", key) if key in tune.pruning.model_fields_set else ("tune", "pruning"),
            f"has no effect: trials have too few epochs (got {key} {spared}, epochs {most})",
            "raise training.epochs, or remove it",
        )


def _whole_numbers(range_: Range) -> list[int]:
    return [value for _, value in ends(range_) if isinstance(value, int)]


def _range(path: str, range_: Range, tune: Tuning) -> Iterator[Problem]:
    loc: Loc = ("tune", "ranges", path)
    if isinstance(range_, Together):
        for label, values in range_.values.items():
            for each in values:
                if not _is_tunable(each.split(".")):
                    yield Problem((*loc, "values", label), f"cannot be searched over (got {each})", _TUNABLE)
        return
    if not _is_tunable(path.split(".")):
        yield Problem(loc, f"cannot be searched over (got {path})", _TUNABLE)
    inside = sorted(other for other in tune.ranges if path.startswith(f"{other}."))
    if inside:
        yield Problem(
            loc, f"lies in another range (got {path}, in {inside[0]})", f"write it into the values of {inside[0]}"
        )
    if isinstance(range_, Choice):
        shown = [json.dumps(value, sort_keys=True) for value in range_.values]
        twice = sorted({value for value in shown if shown.count(value) > 1})
        if twice:
            yield Problem((*loc, "values"), f"has a value twice (got {twice[0]})", "write every value once")
        return
    if range_.low >= range_.high:
        yield Problem((*loc, "low"), f"is not below high (got {range_.low}, {range_.high})", "write low < high")
    if range_.log and range_.low <= 0:
        yield Problem((*loc, "low"), f"has no logarithm (got {range_.low})", "write a low above 0, or leave out log")
    if isinstance(range_, IntRange):
        yield from _step(loc, range_)


def _step(loc: Loc, range_: IntRange) -> Iterator[Problem]:
    if range_.log and range_.step != 1:
        yield Problem((*loc, "step"), f"and log exclude each other (got {range_.step})", "remove one of them")
    elif (range_.high - range_.low) % range_.step:
        last = range_.high - (range_.high - range_.low) % range_.step
        yield Problem(
            (*loc, "high"),
            f"is not low plus whole steps (got {range_.high}, step {range_.step})",
            f"for example {last}",
        )


def _is_tunable(keys: list[str]) -> bool:
    match keys:
        case ["model", *_] | ["features" | "tables", _, *_] | ["tasks", _, "weight" | "loss", *_]:
            return True
        case ["training", key, *_]:
            return key not in _FIXED_TRAINING
        case _:
            return False


def ends(range_: Range) -> list[tuple[Loc, Any]]:
    """Returns the values of a range to check before the first trial, with their paths in the range."""
    match range_:
        case FloatRange() | IntRange():
            return [(("low",), range_.low), (("high",), range_.high)]
        case Choice():
            return [(("values", index), value) for index, value in enumerate(range_.values)]
        case Together():
            return [(("values", label), label) for label in range_.values]
        case _:
            assert_never(range_)


def changes(values: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, Any]:
    """Returns the changes of a trial, by path in the spec; a set of values becomes its single values, in order."""
    changed: dict[str, Any] = {}
    for key, value in values.items():
        range_ = ranges[key]
        changed |= range_.values[value] if isinstance(range_, Together) else {key: value}
    return changed


def _ends(path: str, range_: Range, document: Document, defaults: Document) -> Iterator[Problem]:
    loc: Loc = ("tune", "ranges", path)
    for part_loc, value in ends(range_):
        try:
            checked = check_document(with_values(document, defaults, changes({path: value}, {path: range_})))
        except KeyError as missing:
            part = missing.args[0]
            yield Problem(loc, f"no such path in the spec (got {path})", f"declare {part} first, or make it a choice")
            return
        if isinstance(checked, list):
            for problem in checked:
                yield Problem((*loc, *part_loc), f"gives an invalid spec (got {json.dumps(value)})", str(problem))

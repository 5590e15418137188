"""Mistakes in what `sangam tune` is to search over: each end of each range must make a spec that is valid."""

import json
from collections.abc import Iterator
from typing import Any

from typing_extensions import assert_never

from schemas.loading.documents import Document, check_document, whole, with_values
from schemas.problems import Loc, Problem, listed
from schemas.spec import Spec
from schemas.spec.data import DayLogs
from schemas.spec.tuning import Choice, FloatRange, IntRange, Range, Tuning, metric_of

_FIXED_TRAINING = {"mode", "incremental_epochs", "checkpoint", "seed"}
_TUNABLE = (
    "ranges are for model, tables, the weight and loss of tasks, and training (but for "
    f"{listed(sorted(_FIXED_TRAINING))}): trials share their examples and their seed"
)


def tuning_problems(spec: Spec, document: Document) -> Iterator[Problem]:
    """Yields every mistake in the section `tune` of a spec that is otherwise valid.

    Args:
        spec: the spec.
        document: that it was read from.
    """
    if spec.tune is None:
        return
    yield from _objective(spec, spec.tune)
    yield from _pruning(spec, spec.tune)
    if not has_validation(spec):
        missing = "data.validation_days" if isinstance(spec.data, DayLogs) else "data.splits.validation"
        yield Problem(
            ("tune",),
            f"has nothing to compare trials on (got no {missing})",
            f"declare {missing}: the split that gates judge must not be tuned on",
        )
    document = {key: value for key, value in document.items() if key != "tune"}
    defaults = whole(spec)
    for path, declared in spec.tune.ranges.items():
        found = list(_range(path, declared, spec.tune))
        yield from found or _ends(path, declared, document, defaults)


def has_validation(spec: Spec) -> bool:
    """Says whether some examples are neither trained on nor judged by gates."""
    return spec.data.validation_days > 0 if isinstance(spec.data, DayLogs) else spec.data.splits.validation is not None


def _objective(spec: Spec, tune: Tuning) -> Iterator[Problem]:
    if tune.objective is not None and tune.objective not in spec.tasks:
        yield Problem(
            ("tune", "objective"),
            f"no such task (got '{tune.objective}')",
            f"declared tasks: {listed(list(spec.tasks))}",
        )
    others = sorted(name for name, task in spec.tasks.items() if metric_of(task) != "auc")
    if tune.objective is None and others:
        yield Problem(
            ("tune",),
            f"is by the mean AUC of all tasks, and {listed(others)} have none (got no objective)",
            f"declare objective, the task to compare trials by: {listed(list(spec.tasks))}",
        )


def _pruning(spec: Spec, tune: Tuning) -> Iterator[Problem]:
    epochs = tune.ranges.get("training.epochs")
    most = spec.training.epochs if epochs is None else max(_whole_numbers(epochs), default=0)
    if tune.pruning and most <= tune.pruning.after_epochs:
        yield Problem(
            ("tune", "pruning", "after_epochs")
            if "after_epochs" in tune.pruning.model_fields_set
            else ("tune", "pruning"),
            f"has no effect: trials have no more epochs (got after_epochs {tune.pruning.after_epochs}, epochs {most})",
            "raise training.epochs, or remove it",
        )


def _whole_numbers(declared: Range) -> list[int]:
    return [value for _, value in ends(declared) if isinstance(value, int)]


def _range(path: str, declared: Range, tune: Tuning) -> Iterator[Problem]:
    loc: Loc = ("tune", "ranges", path)
    if not _is_tunable(path.split(".")):
        yield Problem(loc, f"cannot be searched over (got {path})", _TUNABLE)
    inside = sorted(other for other in tune.ranges if path.startswith(f"{other}."))
    if inside:
        yield Problem(
            loc, f"lies in another range (got {path}, in {inside[0]})", f"write it into the values of {inside[0]}"
        )
    if isinstance(declared, Choice):
        shown = [json.dumps(value, sort_keys=True) for value in declared.values]
        twice = sorted({value for value in shown if shown.count(value) > 1})
        if twice:
            yield Problem((*loc, "values"), f"has a value twice (got {twice[0]})", "write every value once")
        return
    if declared.low >= declared.high:
        yield Problem((*loc, "low"), f"is not below high (got {declared.low}, {declared.high})", "write low < high")
    if declared.log and declared.low <= 0:
        yield Problem((*loc, "low"), f"has no logarithm (got {declared.low})", "write a low above 0, or leave out log")
    if isinstance(declared, IntRange):
        yield from _step(loc, declared)


def _step(loc: Loc, declared: IntRange) -> Iterator[Problem]:
    if declared.log and declared.step != 1:
        yield Problem((*loc, "step"), f"and log exclude each other (got {declared.step})", "remove one of them")
    elif (declared.high - declared.low) % declared.step:
        last = declared.high - (declared.high - declared.low) % declared.step
        yield Problem((*loc, "high"), f"is no step (got {declared.high}, step {declared.step})", f"for example {last}")


def _is_tunable(keys: list[str]) -> bool:
    match keys:
        case ["model", *_] | ["tables", _, *_] | ["tasks", _, "weight" | "loss", *_]:
            return True
        case ["training", key, *_]:
            return key not in _FIXED_TRAINING
        case _:
            return False


def ends(declared: Range) -> list[tuple[Loc, Any]]:
    """Returns the values of a range that are tried before the first trial, and where in the range they stand."""
    match declared:
        case FloatRange() | IntRange():
            return [(("low",), declared.low), (("high",), declared.high)]
        case Choice():
            return [(("values", index), value) for index, value in enumerate(declared.values)]
        case _:
            assert_never(declared)


def _ends(path: str, declared: Range, document: Document, defaults: Document) -> Iterator[Problem]:
    loc: Loc = ("tune", "ranges", path)
    for place, value in ends(declared):
        try:
            checked = check_document(with_values(document, defaults, {path: value}))
        except KeyError as missing:
            part = missing.args[0]
            yield Problem(
                loc, f"no such place in the spec (got {path})", f"declare {part} first, or write a choice of it"
            )
            return
        if isinstance(checked, list):
            for problem in checked:
                yield Problem((*loc, *place), f"makes no valid spec (got {json.dumps(value)})", str(problem))

"""Mistakes in tasks: constant labels, inexact corrections, calibration without data, settings without effect."""

from collections.abc import Iterator

from sangam.schemas.derived.validation import validation_place
from sangam.schemas.problems import Loc, Problem
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs, SplitLogs
from sangam.schemas.spec.models import Esmm
from sangam.schemas.spec.tasks import BinaryTask, CrossEntropy, Focal


def task_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in tasks."""
    for name in sorted(set(spec.features) & set(spec.tasks)):
        yield Problem(("tasks", name), f"is also the name of a feature (got '{name}')", "give one of them another name")
    sampled = ""
    for name, task in spec.tasks.items():
        loc: Loc = ("tasks", name)
        if task.only_where == spec.label_of(name):
            yield Problem(
                (*loc, "only_where"),
                f"is the task's own label: all of its examples would have label 1 (got '{task.only_where}')",
                "name the column of an earlier event, such as the click before a purchase",
            )
        if task.example_weight == spec.label_of(name):
            yield Problem(
                (*loc, "example_weight"),
                f"is the task's own label: examples with label 0 would have no weight (got '{task.example_weight}')",
                "name another column",
            )
        if isinstance(task, BinaryTask):
            yield from _binary(loc, task)
            if task.calibration is not None:
                yield from _calibration(spec, (*loc, "calibration"), task.calibration.kind)
            if task.keep_negatives is not None and sampled:
                yield Problem(
                    (*loc, "keep_negatives"),
                    f"task '{sampled}' has it too (got {task.keep_negatives:g})",
                    "sample the negatives of one task only",
                )
            sampled = sampled or (name if task.keep_negatives is not None else "")


def _binary(loc: Loc, task: BinaryTask) -> Iterator[Problem]:
    if isinstance(task.loss, Focal) and task.loss.gamma == 0 and task.loss.alpha is None:
        yield Problem(
            (*loc, "loss", "gamma"),
            "has no effect: the loss is cross-entropy (got 0 without alpha)",
            "use cross_entropy",
        )
    if task.keep_negatives is None:
        return
    exact = "the logit's correction is exact only for plain cross-entropy"
    if isinstance(task.loss, Focal):
        yield Problem((*loc, "keep_negatives"), f"{exact} (got loss focal)", "leave it out, or use cross_entropy")
    elif isinstance(task.loss, CrossEntropy) and task.loss.label_smoothing:
        yield Problem(
            (*loc, "keep_negatives"),
            f"{exact} (got label_smoothing {task.loss.label_smoothing:g})",
            "leave one of them out",
        )


def _calibration(spec: Spec, loc: Loc, kind: str) -> Iterator[Problem]:
    if isinstance(spec.logs, DayLogs) and spec.logs.validation_days == 0:
        yield Problem(
            loc,
            f"is fitted on days that are neither trained on nor judged on (got {kind}, and data.validation_days 0)",
            "declare data.validation_days: 1 or more, or remove it",
        )
    place = validation_place(spec)
    if isinstance(spec.logs, SplitLogs) and spec.logs.splits.validation is None:
        yield Problem(
            loc,
            f"is fitted on examples that are neither trained on nor judged on (got {kind}, and no {place.key})",
            f"declare {place.remedy}; or remove it",
        )
    if isinstance(spec.model, Esmm):
        yield Problem(
            loc,
            f"esmm multiplies the tasks' probabilities: a calibrated one could exceed that of the previous step "
            f"(got {kind})",
            "remove it, or use another model",
        )

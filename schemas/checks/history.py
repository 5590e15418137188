"""Mistakes in features of earlier days: logs without days, settings that leave out rows."""

from collections.abc import Iterator

from sangam.schemas.derived.history import history_features
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.features import RateFeature
from sangam.schemas.spec.tasks import BinaryTask, RegressionTask


def history_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake except those of `clip`; checks/features.py yields them."""
    features = history_features(spec)
    if not features:
        return
    names = listed(list(features))
    if not isinstance(spec.logs, DayLogs):
        yield Problem(
            ("features", next(iter(features))),
            f"needs earlier days (got data of kind {spec.data.kind})",
            "declare data of kind days",
        )
    for name, task in spec.tasks.items():
        if isinstance(task, BinaryTask) and task.keep_negatives is not None:
            yield Problem(
                ("tasks", name, "keep_negatives"),
                f"removes rows that features count (got {task.keep_negatives:g} with {names})",
                "remove it, or these features",
            )
    if "transform" in spec.input.model_fields_set and spec.input.transform == "in_pool":
        yield Problem(
            ("input", "transform"),
            f"has no counts of earlier days (got 'in_pool' with {names})",
            "remove it, or use ahead",
        )
    for name, feature in features.items():
        if isinstance(feature, RateFeature):
            yield from _rate(spec, ("features", name), feature)


def _rate(spec: Spec, loc: Loc, feature: RateFeature) -> Iterator[Problem]:
    task = spec.tasks.get(feature.task)
    if task is None:
        yield Problem(
            (*loc, "task"), f"no such task (got '{feature.task}')", f"tasks of the spec: {listed(list(spec.tasks))}"
        )
    if isinstance(task, BinaryTask) and feature.prior is not None and not 0 <= feature.prior <= 1:
        yield Problem((*loc, "prior"), f"is not a rate (got {feature.prior:g})", "from 0 to 1, or leave it out")
    if feature.log and isinstance(task, RegressionTask) and (feature.clip is None or feature.clip[0] < 0):
        yield Problem(
            (*loc, "log"),
            f"log(1 + x) needs x >= 0 (got clip {list(feature.clip) if feature.clip else None})",
            "declare clip: [low, high] with low >= 0",
        )

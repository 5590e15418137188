"""Mistakes in `online`: specs that it cannot train, guards without a binary task."""

from collections.abc import Iterator

from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs, ServedLogs
from sangam.schemas.spec.release import DirectoryPush
from sangam.schemas.spec.sync import InStep
from sangam.schemas.spec.tasks import BinaryTask
from sangam.schemas.spec.training import LastOfWeights

_ONLINE: Loc = ("online",)


def online_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of the section."""
    if spec.online is None:
        return
    if not isinstance(spec.data, DayLogs | ServedLogs):
        yield Problem(
            _ONLINE,
            f"continues daily runs (got data of kind {spec.data.kind})",
            "remove it, or use kind days or served",
        )
    if spec.event_time is None:
        yield Problem(
            _ONLINE,
            "needs the time of each row, to skip rows that the base has learned (got no event_time)",
            "declare event_time, the column with the time",
        )
    if not isinstance(spec.training.sync, InStep):
        yield Problem(
            _ONLINE,
            f"trains with rows on the ranks (got training.sync of kind {spec.training.sync.kind})",
            "use training.sync: {kind: sync}",
        )
    if not isinstance(spec.push, DirectoryPush):
        yield Problem(
            _ONLINE, f"publishes to a folder of versions (got push of kind {spec.push.kind})", "use kind directory"
        )
    elif spec.push.is_on_store:
        yield Problem(
            _ONLINE,
            f"publishes to a folder of this machine (got push.path {spec.push.path})",
            "use a folder below the pipeline root",
        )
    if "shadow" in spec.online.model_fields_set and not (
        isinstance(spec.push, DirectoryPush) and spec.push.after == "shadow"
    ):
        yield Problem(
            (*_ONLINE, "shadow"),
            f"has no effect: no version is pushed into the shadow (got {str(spec.online.shadow).lower()})",
            "remove it, or add push.after: shadow",
        )
    if isinstance(spec.training.average, LastOfWeights):
        yield Problem(
            ("training", "average", "kind"),
            "averages over an epoch, and online training has no epochs (got last)",
            "use ema, or remove it",
        )
    for number, guard in enumerate(spec.online.guards):
        task = spec.tasks.get(guard.task)
        if not isinstance(task, BinaryTask):
            binary = [name for name, each in spec.tasks.items() if isinstance(each, BinaryTask)]
            what = "unknown" if task is None else f"of kind {task.kind}"
            yield Problem(
                (*_ONLINE, "guards", number, "task"),
                f"is {what} (got '{guard.task}')",
                f"a guard judges one of: {listed(binary)}",
            )

"""Compares a version in the shadow with the live one, by task, on what followed the answers of the live one."""

import datetime
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.promotion.always_valid import interval
from sangam.components.promotion.labeling import labeled
from sangam.components.promotion.paired import Integers, Scored, aucs, calibrations
from sangam.components.promotion.reading import candidates
from sangam.components.registry.shadow import Waiting
from sangam.components.reports.promotion import Calibrated, Comparison, Paired, TaskComparison
from sangam.schemas.contracts.request_log import REQUEST_ID, SCORE, SHADOW_SCORE
from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.sources import columns_of_log, keys_of_log, origins
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.release import DirectoryPush
from sangam.schemas.spec.tasks import BinaryTask

AUC_TIGHTEST_AT, CALIBRATION_TIGHTEST_AT = 0.005, 0.05
"""Standard errors at which intervals are tightest, with 3.3 of them to each side. With a tenth of the error there are
3.8, with three times as much 4."""

Mask = NDArray[np.bool_]


def compare(spec: Spec, push: DirectoryPush, waiting: Waiting, data_root: str, now: datetime.datetime) -> Comparison:
    """Compares a version that waits with the live one.

    Args:
        spec: a spec with data of kind served.
        push: its push, with `after: shadow`.
        waiting: the version, and the live one.
        data_root: folder of the logs, or its address.
        now: present time, UTC.

    Raises:
        UserError: a file cannot be read.
    """
    logs = spec.logs
    assert isinstance(logs, DayLogs)
    assert spec.event_time is not None  # Sources need it.
    by = spec.evaluation.confidence.by
    tasks = [task for task in spec.tasks if spec.label_of(task) in origins(logs)]
    days = [
        datetime.date.fromordinal(number)
        for number in range(waiting.since.date().toordinal(), now.date().toordinal() + 1)
    ]
    found = candidates(logs, data_root, days, waiting, tasks, _read(spec, logs, tasks))
    ended_by = now - datetime.timedelta(seconds=push.lateness_s)
    rows, is_open, lacks = labeled(found.rows, logs, columns(spec), data_root, spec.event_time, ended_by)
    left_out = Counter(found.left_out)
    left_out["the window of their actions is not over"] += int(is_open.sum())
    left_out["their actions may be on days without files"] += int((lacks & ~is_open).sum())
    rows = rows.filter(pa.array(~(is_open | lacks)))
    users = _users(rows, spec.column_of(by) if by else None)
    kept = {name: _scored(spec, rows, name, users) for name in tasks}
    number = sum(2 if isinstance(spec.tasks[name], BinaryTask) else 1 for name in tasks)
    level = spec.evaluation.confidence.level
    return Comparison(
        level=level,
        by=by or "request",
        tasks=[_compared(spec, push, name, scored, (1 - level) / number) for name, scored in kept.items()],
        left_out={reason: count for reason, count in left_out.items() if count},
    )


def _read(spec: Spec, logs: DayLogs, tasks: Sequence[str]) -> list[Column]:
    """Returns the columns of candidates that labels are joined by, that tell users, and that tasks read of the log."""
    by = spec.evaluation.confidence.by
    wanted = {spec.event_time, *(only for name in tasks if (only := spec.tasks[name].only_where))}
    wanted |= {spec.column_of(by)} if by else set()
    keys = [key for source in logs.sources.values() for key in keys_of_log(source)]
    own = [column for column in columns_of_log(logs, columns(spec)) if column.name in wanted]
    return [*keys, *own]


def _users(rows: pa.Table, column: str | None) -> Integers:
    """Returns the number of each candidate's user; without one, of its request."""
    requests = _codes(rows[REQUEST_ID].combine_chunks())
    if column is None:
        return requests
    values = rows[column].combine_chunks()
    users = _codes(values)
    return np.where(np.asarray(values.is_valid(), dtype=bool), users, len(users) + requests)


def _codes(values: pa.Array) -> Integers:
    encoded = values.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64)


def _scored(spec: Spec, rows: pa.Table, name: str, users: Integers) -> Scored:
    """Returns the examples of a task: candidates with its label that both versions scored."""
    task = spec.tasks[name]
    labels, live, shadow = (
        _floats(rows[column]) for column in (spec.label_of(name), SCORE + name, SHADOW_SCORE + name)
    )
    is_in = np.isfinite(labels) & np.isfinite(live) & np.isfinite(shadow)
    if task.only_where:
        is_in &= _floats(rows[task.only_where]) == 1
    return Scored(labels[is_in], live[is_in], shadow[is_in], users[is_in])


def _floats(values: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(values.combine_chunks().cast(pa.float64()).fill_null(np.nan))


def _compared(spec: Spec, push: DirectoryPush, name: str, scored: Scored, alpha: float) -> TaskComparison:
    is_binary = isinstance(spec.tasks[name], BinaryTask)
    examples = len(scored.labels)
    positives = int((scored.labels > 0).sum())
    fewest = min(positives, examples - positives) if is_binary else examples
    compared = TaskComparison(
        task=name,
        users=scored.num_users,
        examples=examples,
        positives=positives if is_binary else None,
        is_enough=scored.num_users >= push.least_users and fewest >= push.least_positives,
    )
    if not compared.is_enough:
        return compared  # Intervals hold for many users alone.
    return compared.model_copy(
        update={
            "auc": _auc(scored, alpha) if is_binary else None,
            "calibration": _calibration(scored, alpha),
        }
    )


def _auc(scored: Scored, alpha: float) -> Paired | None:
    found = aucs(scored)
    if found is None:
        return None
    lower, upper = interval(found.difference, alpha, AUC_TIGHTEST_AT)
    return Paired(live=found.live, shadow=found.shadow, difference=found.difference.value, lower=lower, upper=upper)


def _calibration(scored: Scored, alpha: float) -> Calibrated | None:
    found = calibrations(scored)
    if found is None:
        return None
    lower, upper = interval(found.excess, alpha, CALIBRATION_TIGHTEST_AT)
    ends = interval(found.shadow, alpha, CALIBRATION_TIGHTEST_AT)
    return Calibrated(
        live=float(np.exp(found.live)),
        shadow=float(np.exp(found.shadow.value)),
        difference=found.excess.value,
        lower=lower,
        upper=upper,
        error=abs(found.shadow.value),
        error_lower=max(ends.lower, -ends.upper, 0.0),
        error_upper=max(ends.upper, -ends.lower),
    )

"""Tries of a step within its pod, whatever the backend's own policy is: that one is for pods that are lost.

Argo's policy is the installation's: with Kubeflow Pipelines 2.17 OnError, by which a step that fails is not tried
again; with 2.16.1 OnFailure, by which it is, in a new pod. So the tries are counted here, over all pods of a step.
"""

import datetime
import logging
import time

from sangam.components.kfp_entrypoint.ending import Ending
from sangam.components.kfp_entrypoint.notes import FinalFailure
from sangam.components.kfp_entrypoint.task import Task, execute
from sangam.components.kfp_entrypoint.told import Told
from sangam.components.processes.stopping import Stopped, StopSignals
from sangam.schemas.host.backoff import Backoff
from sangam.schemas.spec.cluster import Retries

_LOG = logging.getLogger(__name__)
SURPLUS_S = 120.0
"""A pod that starts within so many seconds after a final failure is one of the backend's own retries: Argo looks at a
pod's end every 10 s, and a pod starts within seconds where its image lies. A later one was asked for."""


def surplus(task: Task, retries: Retries, now: float) -> Ending | None:
    """Returns the ending of a pod for which no try is left; None if it has one.

    The backend starts `retries.count` pods more by itself, at once; any other was asked for, and has a try.
    """
    failure = task.notes.final_failure(task.name) if task.notes else None
    is_asked = task.pods > retries.count + 1
    if failure is None or task.notes is None or is_asked or abs(now - failure.at) >= SURPLUS_S:
        return None
    again = datetime.datetime.fromtimestamp(now + SURPLUS_S, datetime.UTC)
    note(task, Ending(failure.code, failure.reason), now)
    _LOG.warning("event=no_try_left step=%s retry_after=%s", task.name, again.strftime("%H:%M:%S UTC"))
    return Ending(failure.code, failure.reason)


def run_tries(
    task: Task, retries: Retries, timeout_s: float | None, stop: StopSignals, told: Told | None = None
) -> Ending:
    """Runs a step until it succeeds, cannot, is stopped, or has no try left. A new pod has at least one."""
    backoff, own = Backoff(retries.backoff_s, retries.factor, retries.max_backoff_s), 0
    while True:
        own += 1
        number = _count(task, own)
        if told:
            told.tries(task.first_step)
        ending = execute(task, stop, timeout_s)
        if not ending.reason or ending.is_mistake or ending.is_stop or number > retries.count:
            return ending
        wait_s = backoff.wait_s(number - 1)
        _LOG.warning(
            "event=try_failed step=%s try=%d of=%d next_s=%g reason=%r",
            task.step(),
            number,
            retries.count + 1,
            wait_s,
            ending.reason,
        )
        try:
            with stop.raised():
                time.sleep(wait_s)
        except Stopped as asked:
            why = f"{ending.reason}; before its next try it was stopped by a signal ({asked.signum})"
            return Ending(asked.exit_code, why, is_stop=True)


def is_final(task: Task, ending: Ending, retries: Retries) -> bool:
    """Returns whether the step is not tried again, as far as a pod can know.

    A pod that is stopped gets a successor from the backend, `retries.count` times.
    """
    return not ending.is_stop or task.pods > retries.count


def note(task: Task, ending: Ending, now: float) -> None:
    """Records a final failure for the pods that the backend may still start; errors are only logged."""
    try:
        if task.notes:
            task.notes.fail(task.name, FinalFailure(code=ending.code, reason=ending.reason, at=now))
    except OSError as error:
        _LOG.error("event=failure_not_noted step=%s reason=%r", task.name, str(error))


def _count(task: Task, own: int) -> int:
    """Counts a try and returns its number: of this pod alone where the root cannot be written any more."""
    try:
        return task.notes.count_try(task.name) if task.notes else own
    except OSError as error:
        _LOG.error("event=try_not_counted step=%s reason=%r", task.name, str(error))
        return own

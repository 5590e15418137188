"""The rule that makes a version in the shadow live, drops it, or lets it wait; ADR 0075."""

from collections.abc import Sequence

from sangam.components.reports.promotion import TaskComparison, Verdict
from sangam.schemas.problems import listed
from sangam.schemas.spec.release import DirectoryPush


def decide(tasks: Sequence[TaskComparison], push: DirectoryPush, hours: float) -> Verdict:
    """Decides on a version.

    Beyond doubt out of the bounds, it is dropped at any look. From `push.hours` on it becomes live once every task has
    enough examples and is within the bounds. After twice as long the tasks that have enough are judged alone, and a
    version that is still not within the bounds is dropped.

    Args:
        tasks: the comparison by task.
        push: the bounds.
        hours: hours since the push.
    """
    judged = [task for task in tasks if task.is_enough]
    if wrong := [why for task in judged if (why := _evidence_against(task, push))]:
        return Verdict(decision="drop", because="; ".join(wrong))
    if hours < push.hours:
        return Verdict(decision="wait", because=f"{hours:.1f} of {push.hours:g} hours have passed")
    is_last = hours >= 2 * push.hours
    beyond = [why for task in judged if (why := _beyond(task, push))]
    few = [task.task for task in tasks if not task.is_enough]
    if not judged or (few and not is_last):
        what = f"too little was seen of {listed(few)}" if few else "nothing was seen"
        return _undecided(what, push, is_last=is_last)
    if beyond:
        return _undecided("; ".join(beyond), push, is_last=is_last)
    within = "; ".join(_within(task) for task in judged)
    alone = f"; too little was seen of {listed(few)}" if few else ""
    return Verdict(decision="promote", because=f"within the bounds after {hours:.1f} hours: {within}{alone}")


def _undecided(why: str, push: DirectoryPush, *, is_last: bool) -> Verdict:
    if is_last:
        return Verdict(decision="drop", because=f"undecided after {2 * push.hours:g} hours: {why}")
    return Verdict(decision="wait", because=f"{why}; it is dropped after {2 * push.hours:g} hours")


def _evidence_against(task: TaskComparison, push: DirectoryPush) -> str:
    """Returns what a task is worse in beyond doubt; empty for nothing."""
    if task.auc and task.auc.upper < -push.max_auc_drop:
        return f"{task.task}: AUC is lower by at least {-task.auc.upper:.4f}, more than {push.max_auc_drop:g}"
    found = task.calibration
    if found and found.error_lower > push.max_calibration_error and found.lower > 0:
        return (
            f"{task.task}: predicted / observed is {found.shadow:.3f}, {found.live:.3f} live: farther from 1 than "
            f"{push.max_calibration_error:g} beyond doubt"
        )
    return ""


def _beyond(task: TaskComparison, push: DirectoryPush) -> str:
    """Returns which value of a task is not within the bounds; empty for none."""
    auc, found, is_bound = task.auc, task.calibration, push.judge == "bound"
    what = "may be lower" if is_bound else "is lower"
    if auc and (drop := -(auc.lower if is_bound else auc.difference)) > push.max_auc_drop:
        return f"{task.task}: AUC {what} by {drop:.4f}, more than {push.max_auc_drop:g}"
    if found:
        error, excess = (found.error_upper, found.upper) if is_bound else (found.error, found.difference)
        if error > push.max_calibration_error and excess > 0:
            may = "may be" if is_bound else "is"
            return (
                f"{task.task}: |ln(predicted / observed)| {may} {error:.3f}, more than {push.max_calibration_error:g}"
            )
    return ""


def _within(task: TaskComparison) -> str:
    told = []
    if task.auc:
        told.append(f"AUC {task.auc.difference:+.4f} ({task.auc.lower:+.4f} to {task.auc.upper:+.4f})")
    if task.calibration:
        told.append(f"predicted / observed {task.calibration.shadow:.3f}")
    return f"{task.task} {', '.join(told) or 'seen'}"

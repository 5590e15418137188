"""Takes back the shift by which a refit moves a calibrated model's mean prediction.

A calibration is fitted on the validation days before the model trains on them. As that training moves the mean towards
those days' own, whose rates may be high or low by chance, the calibration would move it a second time. Days that the
model has trained on before and after show by how much: the newest train days (infra/adr/0079-calibrated-drafts.md). Of
logs without days, where a share of the train rows is held out, train rows from all over the split show it.
"""

import logging
import time
from collections.abc import Mapping

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.spec.tasks import BinaryTask
from sangam.trainer_module.loop.calibration import Counts, mean_prediction, with_mean
from sangam.trainer_module.loop.run import Run
from sangam.trainer_module.loop.validation import counts_by_logit

_LOG = logging.getLogger("sangam.trainer_module.rank")


def mean_predictions(run: Run, calibrations: Mapping[str, Calibration]) -> dict[str, float]:
    """Returns the mean calibrated predictions on the newest train days, or on train rows, by calibrated task.

    All ranks together, before the refit.
    """
    return {
        task: mean_prediction(_task(run, task), calibrations[task], counts)
        for task, counts in _counts(run, calibrations).items()
    }


def without_shift(run: Run, calibrations: Mapping[str, Calibration]) -> dict[str, Calibration]:
    """Returns the calibrations with which the refitted model has the mean predictions of before on those rows.

    All ranks together, after the refit.
    """
    kept = {task: fitted for task, fitted in calibrations.items() if task in run.history.means}
    moved = {
        task: with_mean(_task(run, task), kept[task], counts, run.history.means[task])
        for task, counts in _counts(run, kept).items()
    }
    shifts = {task: round(fitted.calibrated[0] - kept[task].calibrated[0], 4) for task, fitted in moved.items()}
    if shifts:
        _LOG.info("refit calibration_shifts=%s", shifts)
    return {**calibrations, **moved}


def _counts(run: Run, calibrations: Mapping[str, Calibration]) -> dict[str, Counts]:
    """Returns a sample's examples by logit, by task that has a fitted calibration: of as many days as are held out, or
    of the train split where it has no days."""
    fitted = [task for task, calibration in calibrations.items() if not calibration.problem]
    stopping = run.job.ranker.training.early_stopping
    if not fitted or stopping is None:
        return {}
    started = time.monotonic()
    with run.progress.beating():
        held_out = len(run.job.validation_days)
        sample = (
            run.source.newest_sample(held_out, stopping.sample)
            if held_out
            else run.source.train_sample(stopping.sample)
        )
        counts = counts_by_logit(run.trainer, sample, run.progress)
    run.progress.metrics.stood_still("validation", time.monotonic() - started)
    return {task: counts[task] for task in fitted if task in counts}


def _task(run: Run, name: str) -> BinaryTask:
    task = run.job.ranker.tasks[name]
    assert isinstance(task, BinaryTask), "only binary tasks are calibrated"
    return task

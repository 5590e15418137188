"""training.json, the report of a training, and losses.npy, every step's losses by task: [steps, tasks]."""

import json
import math
import resource
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.schemas.host.files import write_whole
from sangam.trainer_module import collectives
from sangam.trainer_module.embedding.statistics import NORM_EDGES
from sangam.trainer_module.loop.early_stopping import StopDecision, judge, passes_of
from sangam.trainer_module.loop.history import EpochReport
from sangam.trainer_module.loop.learning_rate import rates
from sangam.trainer_module.loop.run import Run

_POINTS = 100
"""Maximum number of steps whose learning rates are reported."""


def by_rank(run: Run) -> list[dict[str, float | None]]:
    """Returns the statistics of each rank's process, by rank. All ranks together.

    `seconds` since training began, `input_wait` and `rank_wait` (None where it is unknown) as shares of them, and
    `peak_memory_bytes`; 0 for a lost rank.
    """
    rank, ranks, progress = run.trainer.rank, run.trainer.ranks, run.progress
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    own = np.zeros((ranks, 4))
    own[rank] = run.seconds, progress.waited_s, progress.rank_waited_s or 0.0, peak
    of_all = collectives.allreduce_sum(tf.constant(own), name="by_rank").numpy()
    return [
        {
            "seconds": round(seconds, 3),
            "input_wait": _share(waited_s, seconds),
            "rank_wait": None if progress.rank_waited_s is None else _share(for_ranks_s, seconds),
            "peak_memory_bytes": int(peak),
        }
        for seconds, waited_s, for_ranks_s, peak in of_all.tolist()
    ]


def write_report(
    run: Run, tables: dict[str, dict[str, Any]], exchange: dict[str, Any], ranks: list[dict[str, float | None]]
) -> None:
    """Writes both files, training.json last and atomically.

    Args:
        run: the finished run.
        tables: result of `Trainer.statistics`.
        exchange: result of `Trainer.exchange_report`.
        ranks: result of `by_rank`.
    """
    job, trainer, history = run.job, run.trainer, run.history
    seconds = history.seconds + run.seconds
    tasks = trainer.ranker.tasks
    np.save(Path(job.output_dir) / "losses.npy", history.losses())
    examples = sum(report.examples for report in history.reports)
    verdict = judge(job.ranker, history.points)
    document = {
        "spec_digest": job.spec_digest,
        "ranks": trainer.ranks,
        "parameters_dense": trainer.ranker.weights.size,
        "layers": trainer.layers(),
        "examples": examples,
        "seconds": round(seconds, 3),
        "examples_per_s": round(examples / seconds, 1),
        **_waits(history.reports),
        "by_rank": ranks,
        "learning_rates": _learning_rates(run),
        "skipped_steps": sum(report.skipped for report in history.reports),
        "tables": tables,
        "unseen": trainer.ranker.unseen.rates,
        "sync": exchange,
        "days": list(run.manifest.days),
        "warm_start": history.warm_start,
        "best_epoch": None if verdict is None else verdict.best_epoch,
        "early_stopping": None if verdict is None else verdict.document(),
        "calibrations": {task: fitted.facts() for task, fitted in run.manifest.calibrations.items()},
        "refit": None if history.refit_from is None or verdict is None else _refit(run, verdict),
        "resumed_from_step": history.resumed_from,
        "notes": history.notes,
        "checkpoint": {
            "final_step": trainer.step,
            "written": history.num_checkpoints,
            "given_up": history.num_given_up,
            "passed_over": history.passed_over,
            "blocked_s": round(history.blocked_s, 3),
        },
        "epochs": [_epoch(report, tasks) for report in history.epochs],
    }
    if run.progress.observer is not None:
        run.progress.observer.finished(run.progress.step, document, NORM_EDGES.tolist())
    write_whole(job.report_file, json.dumps(document, indent=2) + "\n")


def _epoch(report: EpochReport, tasks: Iterable[str]) -> dict[str, Any]:
    return {
        "examples": report.examples,
        "steps": len(report.step_losses),
        "seconds": round(report.seconds, 3),
        "evict_s": round(report.evict_s, 3),
        **_waits([report]),
        "mean_loss": dict(zip(tasks, report.mean_losses(), strict=True)),
        "validation": {
            task: {metric: value if math.isfinite(value) else None for metric, value in metrics.items()}
            for task, metrics in report.validation.items()
        },
    }


def _learning_rates(run: Run) -> dict[str, list[float]]:
    """Returns the learning rates at a sample of the job's steps, which begin at 1 after a warm start too."""
    last = max(run.history.num_steps, 1)
    steps = sorted({1 + (last - 1) * part // _POINTS for part in range(_POINTS + 1)})
    told = [rates(run.job.ranker.training, step) for step in steps]
    by_name = {name: [float(f"{each[name]:.4g}") for each in told] for name in told[0]}
    return {"steps": list(map(float, steps)), **by_name}


def _waits(reports: Sequence[EpochReport]) -> dict[str, float | None]:
    """Returns the shares of the time that the ranks waited for batches, and for each other."""
    seconds = sum(report.seconds for report in reports)
    for_ranks = [report.rank_wait_s for report in reports]
    known = [waited_s for waited_s in for_ranks if waited_s is not None]
    return {
        "input_wait": _share(sum(report.input_wait_s for report in reports), seconds),
        "rank_wait": _share(sum(known), seconds) if len(known) == len(for_ranks) else None,
    }


def _share(part_s: float, seconds: float) -> float:
    return round(part_s / seconds, 4) if seconds else 0.0


def _refit(run: Run, verdict: StopDecision) -> dict[str, Any]:
    history = run.history
    return {
        "days": list(run.job.refit_days),
        "passes": round(sum(passes_of(verdict.best_point, history.reports[0].examples)), 2),
        "examples": sum(report.examples for report in history.refit),
        "steps": sum(len(report.step_losses) for report in history.refit),
    }

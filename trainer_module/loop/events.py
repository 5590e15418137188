"""TensorBoard events of a training, which rank 0 writes beside the logs."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.histogram.metadata import create_summary_metadata

from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.loop.learning_rate import rates

_EVERY_STEPS, _EVERY_S = 10, 1.0
_FLUSH_MS = 2000


class Events:
    """Writes scalars and histograms by step. Training does not depend on them: disk errors are ignored.

    Tags: `loss/<task>`, the mean of the steps of about a second; `examples_per_s`, `learning_rate/dense`,
    `learning_rate/rows`; `validation/<metric>/<task>` after an epoch; at the end, `input_wait`,
    `rank_wait`, `tables/<table>/<count>` and `tables/<table>/norm`, a histogram of the rows' norms.
    """

    def __init__(self, job: TrainJob):
        """Takes the job; the first step creates the file."""
        self._folder, self._training, self._tasks = Path(job.log_dir), job.ranker.training, tuple(job.ranker.tasks)
        self._losses: list[Sequence[float]] = []
        self._next = 0.0
        self._writer: Any = None

    def stepped(self, step: int, losses: Sequence[float], examples_per_s: float) -> None:
        """Adds a step, from 1, and its loss by task."""
        self._losses.append(losses)
        now = time.monotonic()
        if len(self._losses) < _EVERY_STEPS or now < self._next:
            return
        self._next = now + _EVERY_S
        means, self._losses = np.mean(self._losses, axis=0).tolist(), []
        scalars = {f"loss/{task}": loss for task, loss in zip(self._tasks, means, strict=True)}
        scalars |= {f"learning_rate/{name}": rate for name, rate in rates(self._training, step).items()}
        scalars["examples_per_s"] = examples_per_s
        self._write(step, scalars)

    def validated(self, step: int, results: Mapping[str, Mapping[str, float]]) -> None:
        """Adds the metrics of the validation split: {task: {metric: value}}."""
        named = {
            f"validation/{metric}/{task}": value
            for task, of_task in results.items()
            for metric, value in of_task.items()
        }
        self._write(step, named)

    def finished(self, step: int, report: Mapping[str, Any], norm_edges: Sequence[float]) -> None:
        """Adds the values of the final `training.json`, and flushes."""
        waits = {name: report[name] for name in ("input_wait", "rank_wait")}
        scalars: dict[str, float] = {name: share for name, share in waits.items() if share is not None}
        for table, counts in report["tables"].items():
            scalars |= {
                f"tables/{table}/{name}": value for name, value in counts.items() if isinstance(value, int | float)
            }
        self._write(step, scalars)
        with contextlib.suppress(OSError, tf.errors.OpError), self._open().as_default():
            for table, counts in report["tables"].items():
                if any(counts.get("norms", ())):
                    buckets = np.stack([norm_edges[:-1], norm_edges[1:], counts["norms"]], axis=1)
                    tag = f"tables/{table}/norm"
                    tf.summary.write(tag, buckets, step, create_summary_metadata(tag, "rows by Euclidean norm"))
            self._writer.flush()

    def _write(self, step: int, scalars: Mapping[str, float]) -> None:
        with contextlib.suppress(OSError, tf.errors.OpError), self._open().as_default():
            for tag, value in scalars.items():
                tf.summary.scalar(tag, value, step)

    def _open(self) -> Any:
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(str(self._folder), flush_millis=_FLUSH_MS)
        return self._writer

"""One stream: trains a base on minute after minute, and asks servers before each of them."""

import argparse
import datetime
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from bench.freshness.minutes import MINUTE_S, write_minutes
from bench.freshness.servers import Scores, Server
from sangam.pipelines.online.job import job_of, segments_folder
from sangam.pipelines.online.request import check_request
from sangam.schemas.contracts import deltas, segments
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.loading import load_spec
from sangam.trainer_module import collectives
from sangam.trainer_module.input.raw_examples import first_examples
from sangam.trainer_module.loop.start import load_trainer
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.online.learning import Learner
from sangam.trainer_module.online.reading import SegmentReader
from sangam.trainer_module.online.turns import DENSE, Turn
from sangam.trainer_module.progress import Progress

EVERY_S = {"none": None, "daily": 86_400, "hourly": 3_600, "each minute": MINUTE_S}
"""Seconds between the deltas of each server."""
_COMPARE_EVERY = 100
_MOST_DIFFERENCE = 1e-4
_ALL = 10**9


class _Compared:
    """Compares the server that follows each minute with the trainer whose deltas it has applied."""

    def __init__(self, job: TrainJob, trainer: Trainer):
        self._trainer, self._reader = trainer, SegmentReader(job, rank=0, ranks=1)
        self.found: list[tuple[int, dict[str, Any]]] = []

    def note(self, at: int, number: int) -> None:
        """Keeps the trainer's own predictions of a segment, whose rows are those from `at` on."""
        parts = [self._trainer.predict(batch) for batch in self._reader.batches(number)]
        self.found.append((at, {task: np.concatenate([part[task] for part in parts])[:, 0] for task in parts[0]}))

    def difference(self, served: Scores) -> float:
        """Returns the largest difference of two predictions of one row."""
        differences = [
            np.abs(served[task][at : at + len(values)] - values).max()
            for at, predictions in self.found
            for task, values in predictions.items()
        ]
        return float(max(differences))


def run(spec_file: Path, root: Path, data: Path, days: Sequence[datetime.date]) -> dict[str, Any]:
    """Streams days, and returns AUC by server and task.

    Args:
        spec_file: with a section `online`.
        root: root of a daily run whose model has learned from the days before.
        data: folder of the logs.
        days: to stream, in their order.
    """
    spec = load_spec(spec_file)
    request = check_request(spec, root, "latest", data, follows=False)
    folder = segments_folder(request)
    minutes = write_minutes(spec, data, days, folder)
    job = job_of(request, request.base)
    for path in (job.log_dir, job.output_dir, job.checkpoint_dir):
        Path(path).mkdir(parents=True, exist_ok=True)
    rank, ranks = collectives.start()
    trainer, start, _ = load_trainer(job, None, rank=rank, ranks=ranks)
    learner = Learner(job, trainer, start.history, Progress(job, rank))
    learner.begin(segment=0)
    servers = {name: Server(request.base.version, every_s) for name, every_s in EVERY_S.items()}
    files = [str(segments.examples_file(folder, number)) for number in range(1, len(minutes.first_events) + 1)]
    examples = first_examples(files, _ALL)
    compared, count = _Compared(job, trainer), 0
    for number, first_event in enumerate(minutes.first_events, start=1):
        rows = segments.read(folder, number).rows
        for server in servers.values():
            server.arrive(first_event, examples[count : count + rows])
        if number % _COMPARE_EVERY == 0:
            compared.note(count, number)
        learner.train(number)
        learner.publish(Turn(segment=number, publish=DENSE))
        count += rows
    _refuse_lost(request.base.version, learner.publisher.number, count)
    scores = {name: server.scores() for name, server in servers.items()}
    difference = compared.difference(scores["each minute"])
    assert difference < _MOST_DIFFERENCE, f"served and trained predictions differ by {difference}"
    return {
        "rows": count,
        "minutes": len(minutes.first_events),
        "deltas": {name: server.applied for name, server in servers.items()},
        "difference": difference,
        "aucs": {
            name: {task: float(roc_auc_score(minutes.labels[task], values)) for task, values in found.items()}
            for name, found in scores.items()
        },
    }


def _refuse_lost(version: Path, number: int, rows: int) -> None:
    """Makes sure that each row was trained on once."""
    trained = deltas.read(version.parent, version.name, number).examples
    assert trained == rows, f"{trained} rows were trained on, of {rows}"


def main() -> None:
    """Prints the result as the last line."""
    parser = argparse.ArgumentParser(prog="python -m bench.freshness.stream", description=__doc__)
    for name in ("spec", "root", "data"):
        parser.add_argument(name, type=Path)
    parser.add_argument("days", nargs="+", type=datetime.date.fromisoformat)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    started = time.monotonic()
    found = run(options.spec, options.root, options.data, options.days)
    print(json.dumps(found | {"seconds": round(time.monotonic() - started)}), flush=True)


if __name__ == "__main__":
    main()

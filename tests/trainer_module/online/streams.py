"""Streams of segments for online trainings, and what becomes of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sangam.schemas.contracts import deltas, segments
from sangam.schemas.contracts.training_job import Stream, TrainJob, write_job
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.online import Online
from sangam.trainer_module.online.delta_files import arrays
from tests.trainer_module.sample_blocks import write_blocks
from tests.trainer_module.sample_job import FIRST_EVENT_S, job

LINEAGE = "20240301001"


def write_segments(folder: Path, records: Sequence[bytes], *, rows: int, first: int = 1) -> int:
    """Seals records as segments of so many rows; an event a minute. Returns the last number."""
    number = first - 1
    for start in range(0, len(records), rows):
        number += 1
        part = records[start : start + rows]
        write_blocks(segments.begin(folder, number) / segments.EXAMPLES_FILE, part)
        begins = FIRST_EVENT_S + 60 * start
        ends = begins + 60 * (len(part) - 1)
        segments.seal(folder, number, rows=len(part), first_event=begins, last_event=ends, positions={}, counts={})
    return number


def online_job(directory: Path, ranker: RankerSpec, *, base: Path | None, **settings: Any) -> TrainJob:
    """Returns the job of an online training, from a checkpoint or from nothing, with its version; makes its folders."""
    versions = directory / "versions"
    (versions / LINEAGE).mkdir(parents=True)
    (versions / LINEAGE / "manifest.json").write_text("{}")
    stream = Stream(
        segments=str(directory / "examples"),
        first=1,
        versions=str(versions),
        lineage=LINEAGE,
        settings=Online.model_validate({"sync": {"rows_every_s": 0.2, "dense_every_s": 0.5}, **settings}),
    )
    made = job(directory, ranker, (), base=base).model_copy(
        update={"stream": stream, "model_dir": "", "validation_files": ()}
    )
    for folder in (made.log_dir, made.output_dir, made.checkpoint_dir, stream.segments):
        Path(folder).mkdir(parents=True, exist_ok=True)
    write_job(directory / "job.json", made)
    return made


def calm(made: TrainJob) -> TrainJob:
    """Returns the job with few deltas and checkpoints from now on; writes it."""
    assert made.stream is not None
    settings = Online.model_validate({"sync": {"rows_every_s": 2, "dense_every_s": 4}, "checkpoint_every_s": 4})
    made = made.model_copy(update={"stream": made.stream.model_copy(update={"settings": settings})})
    write_job(Path(made.log_dir).parent / "job.json", made)
    return made


def started(made: TrainJob) -> tuple[Any, Any, Any]:
    """Returns a learner as a rank starts it, its checkpoints, and its trainer."""
    from sangam.trainer_module.loop.start import load_trainer
    from sangam.trainer_module.online.checkpointing import Checkpoints
    from sangam.trainer_module.online.learning import Learner
    from sangam.trainer_module.progress import Progress

    trainer, start, _ = load_trainer(made, None, rank=0, ranks=1)
    learner, segment = Learner(made, trainer, start.history, Progress(made, 0)), start.position.epoch
    checkpoints = Checkpoints(
        Path(made.checkpoint_dir), start.manifest, rank=0, keep=2, written_step=trainer.step if segment else None
    )
    learner.begin(segment=segment)
    return learner, checkpoints, trainer


def served_rows(made: TrainJob, base: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Returns the rows of a server that has applied all deltas to a version's rows: {key: [dim]}."""
    assert made.stream is not None
    rows = dict(base)
    versions = Path(made.stream.versions)
    for number in deltas.published(versions, LINEAGE):
        delta = deltas.read(versions, LINEAGE, number)
        for group in delta.groups:
            for removed in arrays(versions, delta, group, "removed"):
                for key in removed.tolist():
                    rows.pop(key, None)
            of_keys = arrays(versions, delta, group, "keys")
            for keys, values in zip(of_keys, arrays(versions, delta, group, "rows"), strict=True):
                rows |= dict(zip(keys.tolist(), values, strict=True))
    return rows


def served_dense(made: TrainJob) -> np.ndarray:
    """Returns the dense weights of the last delta that has some."""
    assert made.stream is not None
    versions = Path(made.stream.versions)
    numbers = [n for n in deltas.published(versions, LINEAGE) if deltas.read(versions, LINEAGE, n).dense]
    flat: np.ndarray = np.load(deltas.path_of(versions, LINEAGE, numbers[-1]) / deltas.DENSE_FILE)
    return flat

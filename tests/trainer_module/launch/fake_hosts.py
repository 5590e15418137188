"""Coordinators and hosts with fake ranks and a fake export: `python -m <this module> ROLE ...`.

Without TensorFlow they start at once. A rank trains until there is a file `trained` in its folder, and makes the
mistake that is written in `mistake`, and takes all memory once there is `hungry`; the export makes an empty model.
"""

import os
import sys
import time
from pathlib import Path

from schemas.contracts.exit_codes import ExitCode
from schemas.contracts.training_job import TrainJob, read_job
from schemas.parent_process import end_with_parent
from trainer_module.checkpoint.manifest import MANIFEST, Manifest, encode
from trainer_module.input.position import Position
from trainer_module.launch import coordinator, host


def end_training(job: TrainJob) -> None:
    """Leaves what rank 0 leaves behind."""
    final = Path(job.final_checkpoint)
    final.mkdir(exist_ok=True)
    position = Position(epoch=0, examples=0, parts=0)
    manifest = Manifest(
        step=1,
        ranks=1,
        spec_digest="",
        job_digest=job.digest,
        seed=0,
        days=(),
        position=position,
        groups={},
        weights=(),
    )
    (final / MANIFEST).write_bytes(encode(manifest))
    job.report_file.write_text("{}")


def _rank(job_file: Path, rank: int) -> int:
    job, folder = read_job(job_file), job_file.parent
    print(f"start rank={rank}", flush=True)
    taken: list[bytes] = []
    while not (folder / "trained").exists():
        job.heartbeat_file(rank).touch()
        if rank == 0 and (folder / "mistake").exists():
            job.mistake_file(rank).write_text((folder / "mistake").read_text())
            return ExitCode.MISTAKE
        while rank == 1 and (folder / "hungry").exists():
            taken.append(b"x" * (1 << 24))
        time.sleep(0.05)
    if rank == 0:
        end_training(job)
    return 0


def main(role: str, *arguments: str) -> int:
    """Plays a role."""
    sys.argv[1:] = arguments
    if role == "coordinator":
        return coordinator.main(export_module="tests.trainer_module.launch.fake_export")
    if role == "host":
        return host.main(rank_module="tests.trainer_module.launch.fake_hosts")
    # A rank: its arguments are those of a real one, the first of which is the job file.
    end_with_parent(int(arguments[0]))
    return _rank(Path(role), int(os.environ["HOROVOD_RANK"]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

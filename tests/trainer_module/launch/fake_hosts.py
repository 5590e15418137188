"""Coordinators and hosts with fake ranks, parameter servers and a fake export: `python -m <this module> ROLE ...`.

Without TensorFlow they start at once. A rank finds its servers and trains until there is a file `trained` in its
folder, and makes the mistake that is written in `mistake`; the process whose name is in `hungry` takes all memory, and
the server whose name is in `leaves` ends by itself; the export makes an empty model.
"""

import os
import sys
import time
from pathlib import Path

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.training_job import TrainJob, read_job
from sangam.schemas.host.files import write_whole
from sangam.schemas.host.parent_process import end_with_parent
from sangam.trainer_module.checkpoint.manifest import MANIFEST, Manifest, encode
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.launch import coordinator, host


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


def _rank(job_file: Path, rank: int, attempt: str) -> int:
    job, folder = read_job(job_file), job_file.parent
    print(f"start rank={rank}", flush=True)
    servers = [job.server_file(number, attempt) for number in range(job.ranker.num_parameter_servers)]
    while not all(file.exists() for file in servers):
        time.sleep(0.05)
    while not (folder / "trained").exists():
        job.heartbeat_file(rank).touch()
        if rank == 0 and (folder / "mistake").exists():
            job.mistake_file(rank).write_text((folder / "mistake").read_text())
            return ExitCode.MISTAKE
        _eat(folder, f"rank-{rank}")
        time.sleep(0.05)
    if rank == 0:
        end_training(job)
    return 0


def _server(job_file: Path, number: int, attempt: str, address: str) -> int:
    folder, name = job_file.parent, f"parameter-server-{number}"
    print(f"start server={number}", flush=True)
    write_whole(read_job(job_file).server_file(number, attempt), address)
    while not _names(folder / "leaves", name):
        _eat(folder, name)
        time.sleep(0.05)
    (folder / "leaves").unlink()
    return 0


def _eat(folder: Path, name: str) -> None:
    """Takes memory until this process is ended, if its name is written down."""
    taken = []
    while _names(folder / "hungry", name):
        taken.append(b"x" * (1 << 24))


def _names(file: Path, name: str) -> bool:
    return file.exists() and file.read_text() == name


def main(role: str, *arguments: str) -> int:
    """Plays a role."""
    sys.argv[1:] = arguments
    if role == "coordinator":
        return coordinator.main(export_module="tests.trainer_module.launch.fake_export")
    if role == "host":
        own = "tests.trainer_module.launch.fake_hosts"
        return host.main(rank_module=own, server_module=own)
    # A rank or a server: its arguments are those of a real one, the first of which is the job file.
    end_with_parent(int(arguments[0]))
    if "--host" in arguments:
        _, number, attempt, _, address = arguments
        return _server(Path(role), int(number), attempt, address)
    return _rank(Path(role), int(os.environ["HOROVOD_RANK"]), arguments[-1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

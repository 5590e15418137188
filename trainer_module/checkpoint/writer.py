"""Writes one rank's part of a checkpoint aside; rank 0 waits for all parts and publishes the whole by one rename.

Each rank's part ends with a small file that counts and checksums it; the ranks meet in the shared folder alone, so
that training's own messages are not waited for.
"""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from trainer_module.checkpoint import folder
from trainer_module.checkpoint.files import CheckpointError, FileRecord, write_array, write_bytes
from trainer_module.checkpoint.manifest import (
    MANIFEST,
    Manifest,
    batches_file,
    dense_file,
    encode,
    extra_file,
    rows_file,
)
from trainer_module.snapshot import Snapshot

PARTS_DEADLINE_S = 1800.0
HISTORY = "history.json"
_POLL_S = 0.05
_PARTS = TypeAdapter(dict[str, FileRecord])


@dataclass(frozen=True)
class Contents:
    """What a rank writes.

    Attributes:
        manifest: of the checkpoint, without files.
        snapshot: this rank's state.
        batches: [n, 2] int64, the pool's batches that this rank has trained on in this epoch.
        history: JSON of what training has done so far; rank 0's is written.
        arrays: more arrays of rank 0, read with the history.
    """

    manifest: Manifest
    snapshot: Snapshot
    batches: NDArray[Any]
    history: bytes
    arrays: dict[str, NDArray[Any]]


class Writer:
    """Writes a rank's checkpoints in a thread, one at a time."""

    def __init__(self, rank: int, *, deadline_s: float = PARTS_DEADLINE_S):
        self._rank, self._deadline_s = rank, deadline_s
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def is_writing(self) -> bool:
        """Whether the last checkpoint is still on its way to the disk."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, target: Path, contents: Contents, *, keep: int | None = None) -> None:
        """Starts to write a checkpoint.

        Args:
            target: where it is published.
            contents: nothing of it may change while it is written.
            keep: how many of its folder's checkpoints are left, older ones being removed; None: all.
        """
        self.finish()
        work = (target, contents, keep)
        self._thread = threading.Thread(target=self._run, args=work, name="checkpoint", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Waits for the checkpoint that is being written.

        Raises:
            Whatever kept it from being written.
        """
        if self._thread is not None:
            self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises what went wrong in the thread, if anything did."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self, target: Path, contents: Contents, keep: int | None) -> None:
        try:
            write(target, contents, self._rank, deadline_s=self._deadline_s)
            if self._rank == 0 and keep is not None:
                folder.prune(target.parent, keep)
        except BaseException as error:  # noqa: BLE001 - it is raised where training would otherwise go on without it
            self._error = error


def write(target: Path, contents: Contents, rank: int, *, deadline_s: float) -> None:
    """Writes a rank's part; rank 0 returns when the checkpoint is published.

    Raises:
        CheckpointError: when another rank's part has not come by the deadline.
    """
    aside = folder.being_written(target)
    os.makedirs(aside, exist_ok=True)
    files = _write_part(aside, contents, rank)
    part = _part_file(aside, rank)
    unnamed = part.with_suffix(".tmp")
    write_bytes(unnamed, _PARTS.dump_json(files))
    os.rename(unnamed, part)
    if rank == 0:
        ranks = contents.manifest.ranks
        files = _gather(aside, ranks, deadline_s)
        write_bytes(aside / MANIFEST, encode(contents.manifest.model_copy(update={"files": files})))
        for number in range(ranks):
            os.remove(_part_file(aside, number))
        folder.sync(aside)
        folder.publish(target)


def _write_part(aside: Path, contents: Contents, rank: int) -> dict[str, FileRecord]:
    arrays: dict[str, NDArray[Any]] = {batches_file(rank): contents.batches}
    for group, rows in contents.snapshot.groups.items():
        for name, array in {"keys": rows.keys, "rows": rows.rows, **rows.extra}.items():
            arrays[rows_file(rank, group, name)] = array
    if rank == 0:
        for name, array in {**contents.snapshot.extra, **contents.arrays}.items():
            arrays[extra_file(name)] = array
        arrays |= {dense_file(moment): vector for moment, vector in flat_moments(contents).items()}
    files = {name: write_array(aside / name, array) for name, array in arrays.items()}
    if rank == 0:
        files[HISTORY] = write_bytes(aside / HISTORY, contents.history)
    return files


def flat_moments(contents: Contents) -> dict[str, NDArray[Any]]:
    """Returns the dense weights and each moment of their optimizer, as vectors in the order of the manifest."""
    dense = contents.snapshot.dense
    names = [weight.name for weight in contents.manifest.weights]
    moments = sorted({name.split("/", 1)[0] for name in dense})
    if len(dense) != len(moments) * len(names):
        raise ValueError(f"checkpoint: weights {names} were to be written (got {sorted(dense)})")
    return {moment: np.concatenate([dense[f"{moment}/{name}"].ravel() for name in names]) for moment in moments}


def _part_file(aside: Path, rank: int) -> Path:
    return aside / f"rank-{rank:05d}.json"


def _gather(aside: Path, ranks: int, deadline_s: float) -> dict[str, FileRecord]:
    """Waits for every rank's part; returns the files of all."""
    given_up = time.monotonic() + deadline_s
    files: dict[str, FileRecord] = {}
    for rank in range(ranks):
        part = _part_file(aside, rank)
        while not part.exists():
            if time.monotonic() > given_up:
                raise CheckpointError(
                    f"{aside}: rank {rank} has not written its part (got nothing after {deadline_s:.0f} s); "
                    "see its log, and the space left on that disk"
                )
            time.sleep(_POLL_S)
        files |= _PARTS.validate_json(part.read_bytes(), strict=True)
    return files

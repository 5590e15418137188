"""Writes one process's part of a checkpoint; rank 0 waits for all parts and completes them with the manifest.

Ranks have parts, and so have parameter servers, which then write the rows. Each part ends with a small file of sizes
and checksums. The processes coordinate through the shared folder alone, so that training's own messages need not wait.
A disk error may pass: writing is retried until a deadline.
"""

import errno
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sangam.schemas.host.backoff import Backoff
from sangam.schemas.host.files import refuse_links
from sangam.trainer_module.checkpoint import folder
from sangam.trainer_module.checkpoint.files import FileRecord, write_array, write_bytes
from sangam.trainer_module.checkpoint.manifest import Manifest, batches_file, dense_file, extra_file, rows_file
from sangam.trainer_module.checkpoint.rows import write_rows
from sangam.trainer_module.snapshot import HeldRows, Snapshot, StateAtCut

_LOG = logging.getLogger("sangam.trainer_module.checkpoint")
DEADLINE_S = 1800.0
HISTORY = "history.json"
_POLL_S = 0.05
_BACKOFF = Backoff(1.0, max_s=60.0)
_WILL_NOT_PASS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Errors that do not pass by themselves."""
_PARTS = TypeAdapter(dict[str, FileRecord])
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Contents:
    """The state that a rank writes.

    Attributes:
        manifest: manifest of the checkpoint, without files.
        snapshot: this rank's state.
        batches: [n, 2] int64, the pool's batches that this rank has trained on in this epoch.
        history: JSON of the training's history; rank 0 writes it.
        arrays: more arrays of rank 0, read with the history.
    """

    manifest: Manifest
    snapshot: Snapshot | StateAtCut
    batches: NDArray[Any]
    history: bytes
    arrays: dict[str, NDArray[Any]]


class NotWrittenError(RuntimeError):
    """A checkpoint did not reach the disk by the deadline; a later attempt may succeed."""


class Writer:
    """Writes a rank's checkpoints in a thread, one at a time."""

    def __init__(self, rank: int, *, deadline_s: float = DEADLINE_S):
        """Takes the rank, and for how long writing a checkpoint is retried."""
        self._rank, self._deadline_s = rank, deadline_s
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._num_given_up = 0

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, target: Path, contents: Contents, *, keep: int | None = None, is_needed: bool = False) -> None:
        """Starts to write a checkpoint.

        Args:
            target: folder of the published checkpoint.
            contents: nothing of it may change while it is written; rows at a cut are told to end.
            keep: number of checkpoints that stay in its folder; None: all.
            is_needed: missing the deadline is an error; otherwise the checkpoint is given up with a warning.
        """
        self.finish()
        work = (target, contents, keep, is_needed)
        self._thread = threading.Thread(target=self._run, args=work, name="checkpoint", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Waits for the checkpoint that is being written.

        Raises:
            The error of the write, unless the checkpoint was given up.
        """
        if self._thread is not None:
            self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises the thread's error, if there was one."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def take_given_up(self) -> int:
        """Returns the number of checkpoints given up since the last call."""
        number, self._num_given_up = self._num_given_up, 0
        return number

    def _run(self, target: Path, contents: Contents, keep: int | None, is_needed: bool) -> None:
        try:
            if self._rank == 0 and keep is not None:
                # No rank still writes a checkpoint that was given up; a full disk may need its space.
                _tidy(lambda: folder.remove_remains(target.parent, but=target))
            write(target, contents, self._rank, deadline_s=self._deadline_s)
            if self._rank == 0 and keep is not None:
                _tidy(lambda: folder.prune(target.parent, keep))
        except NotWrittenError as error:
            if is_needed:
                self._error = error
                return
            self._num_given_up += 1
            _LOG.warning("event=checkpoint_given_up training continues without it: %s", error)
        except BaseException as error:  # noqa: BLE001 - raised where training would otherwise continue without the checkpoint
            self._error = error
        finally:
            if isinstance(contents.snapshot, StateAtCut):
                contents.snapshot.end()


def write(target: Path, contents: Contents, rank: int, *, deadline_s: float) -> None:
    """Writes a rank's part; rank 0 returns when the checkpoint is published.

    Raises:
        NotWrittenError: when the disk failed, or another rank did not finish, by the deadline.
    """
    parts = _part_files(target, contents.manifest)

    def publish() -> None:
        for part in parts.values():
            part.unlink(missing_ok=True)
        folder.publish(target, contents.manifest.model_copy(update={"files": files}))

    _persist(lambda: _finish_part(_rank_file(target, rank), _write_part(target, contents, rank)), target, deadline_s)
    if rank == 0:
        files = _persist(lambda: _gather(parts, deadline_s), target, deadline_s)
        _persist(publish, target, deadline_s)


def _persist(act: Callable[[], _Result], target: Path, deadline_s: float) -> _Result:
    """Returns the result of `act`; retries it after a disk error, with growing pauses."""
    given_up = math.inf
    for failures in itertools.count():
        try:
            return act()
        except OSError as error:
            if error.errno in _WILL_NOT_PASS:
                raise
            given_up = min(given_up, time.monotonic() + deadline_s)
            pause_s = _BACKOFF.wait_s(failures)
            if time.monotonic() + pause_s > given_up:
                raise NotWrittenError(
                    f"{target}: could not be written until the deadline (got {error}); check the disk's free space "
                    "and health"
                ) from error
            _LOG.warning("event=checkpoint_retried path=%s pause_s=%.0f after: %s", target, pause_s, error)
        time.sleep(pause_s)
    raise AssertionError("unreachable")


def _tidy(act: Callable[[], None]) -> None:
    """Removes old checkpoints; the next checkpoint retries a failed removal."""
    try:
        act()
    except OSError as error:
        _LOG.warning("event=old_checkpoints_not_removed: %s", error)


def _write_part(target: Path, contents: Contents, rank: int) -> dict[str, FileRecord]:
    refuse_links(target, target.parent)
    os.makedirs(target, exist_ok=True)
    files = _write_rows(target, contents.snapshot.groups, rank)
    arrays: dict[str, NDArray[Any]] = {batches_file(rank): contents.batches}
    if rank == 0:
        for name, array in {**contents.snapshot.extra, **contents.arrays}.items():
            arrays[extra_file(name)] = array
        arrays |= {dense_file(moment): vector for moment, vector in flat_moments(contents).items()}
    files |= {name: write_array(target / name, array) for name, array in arrays.items()}
    if rank == 0:
        files[HISTORY] = write_bytes(target / HISTORY, contents.history)
    return files


def _write_rows(target: Path, groups: Mapping[str, HeldRows], owner: int) -> dict[str, FileRecord]:
    files: dict[str, FileRecord] = {}
    for group, rows in groups.items():
        files |= write_rows(target, owner, group, rows)
        for name, array in rows.extra.items():
            file = rows_file(owner, group, name)
            files[file] = write_array(target / file, array)
    return files


def flat_moments(contents: Contents) -> dict[str, NDArray[Any]]:
    """Returns the dense weights and each moment of their optimizer, as vectors in the order of the manifest."""
    dense = contents.snapshot.dense
    names = [weight.name for weight in contents.manifest.weights]
    moments = sorted({name.split("/", 1)[0] for name in dense})
    if len(dense) != len(moments) * len(names):
        raise ValueError(f"checkpoint: the manifest lists the weights {names} (got {sorted(dense)})")
    return {moment: np.concatenate([dense[f"{moment}/{name}"].ravel() for name in names]) for moment in moments}


def _part_files(target: Path, manifest: Manifest) -> dict[str, Path]:
    """Returns the last file of every part by who writes it."""
    ranks = {f"rank {rank}": _rank_file(target, rank) for rank in range(manifest.ranks)}
    servers = {f"parameter server {server}": _server_file(target, server) for server in range(manifest.servers)}
    return ranks | servers


def _rank_file(target: Path, rank: int) -> Path:
    return target / f"rank-{rank:05d}.json"


def _server_file(target: Path, server: int) -> Path:
    return target / f"server-{server:05d}.json"


def _finish_part(file: Path, files: dict[str, FileRecord]) -> None:
    folder.write_last(file, _PARTS.dump_json(files))


def _gather(parts: Mapping[str, Path], deadline_s: float) -> dict[str, FileRecord]:
    """Waits for every part; returns the files of all."""
    given_up = time.monotonic() + deadline_s
    files: dict[str, FileRecord] = {}
    for name, part in parts.items():
        while not part.exists():
            if time.monotonic() > given_up:
                raise NotWrittenError(
                    f"{part.parent}: {name} has not written its part (got nothing after {deadline_s:.0f} s); "
                    "check its log, and the space left on that disk"
                )
            time.sleep(_POLL_S)
        files |= _PARTS.validate_json(part.read_bytes(), strict=True)
    return files


class ServerWriter:
    """Writes a parameter server's rows in a thread, one checkpoint at a time."""

    def __init__(self, server: int, *, deadline_s: float = DEADLINE_S):
        """Takes the server's number, and for how long writing a checkpoint is retried."""
        self._server, self._deadline_s = server, deadline_s
        self._thread: threading.Thread | None = None

    def start(self, target: Path, cut: Callable[[], Mapping[str, HeldRows]]) -> None:
        """Starts to write; rank 0 waits for the part's last file, and abandons the checkpoint without it.

        Args:
            target: folder of the published checkpoint.
            cut: returns the rows as they are now; called when the last checkpoint is written.
        """
        self.finish()
        groups = cut()
        self._thread = threading.Thread(target=self._run, args=(target, groups), name="checkpoint", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Waits for the checkpoint that is being written."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, target: Path, groups: Mapping[str, HeldRows]) -> None:
        def part() -> None:
            os.makedirs(target, exist_ok=True)
            _finish_part(_server_file(target, self._server), _write_rows(target, groups, self._server))

        try:
            _persist(part, target, self._deadline_s)
        except NotWrittenError as error:
            _LOG.warning("event=checkpoint_given_up training continues without it: %s", error)
        except BaseException:  # noqa: BLE001
            # No caller waits for this thread: end as a rank would, so that the attempt ends with this log.
            _LOG.exception("event=checkpoint_failed path=%s", target)
            logging.shutdown()
            os._exit(1)
        finally:
            for rows in groups.values():
                rows.end()

"""A folder of sealed files of requests, also of several servers, and how much of it stays."""

import contextlib
import datetime
import logging
import os
import re
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sangam.components.request_log.rows import batch_of, look_for_pandas, schema_of
from sangam.components.request_log.served import Plan, Served
from sangam.components.request_log.spool import Spool, orphans, seal
from sangam.schemas.contracts.request_log import OPEN_FOLDER, SEALED, hour_folder
from sangam.schemas.errors import UserError
from sangam.schemas.host.limited_log import LimitedLog
from sangam.schemas.spec.serving import RequestLog

_LOG = LimitedLog(logging.getLogger("sangam.components.server"))
_LOOK_EVERY_S = 30.0
"""Seconds between two looks for spools of dead servers, for files to remove, and tries to seal again."""


@dataclass(frozen=True)
class _Open:
    spool: Spool
    plan: Plan
    hour: str
    since_s: float


class Folder:
    """Writes requests into a folder; one thread calls it.

    Attributes:
        counts: files sealed and removed, requests recovered and lost, by name.
    """

    def __init__(self, root: Path, key: bytes, clock: Callable[[], float]):
        """Creates the folder.

        Args:
            root: the folder, also of other servers.
            key: key of hashed columns.
            clock: returns seconds since 1970.

        Raises:
            UserError: it cannot be created.
        """
        self._root, self._key, self._clock = root, key, clock
        self._spools = root / OPEN_FOLDER
        try:
            self._spools.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"--log: cannot be created (got {root}: {error.strerror}); give a folder that this server may write"
            ) from error
        look_for_pandas()
        self._writer, self._number = _writer_name(clock()), 0
        self._open: _Open | None = None
        self._settings: RequestLog | None = None
        self._looked_s = float("-inf")
        self.counts: Counter[str] = Counter()

    def write(self, plan: Plan, requests: Sequence[Served]) -> int:
        """Adds requests of one version and one hour, all or none; returns their number.

        Raises:
            OSError: they cannot be written.
        """
        hour = hour_folder(requests[0].at_s)
        if self._open and (self._open.plan is not plan or self._open.hour != hour or self._open.spool.is_removed):
            self._close()
        batch = batch_of(plan, requests, self._key)
        if self._open is None:
            self._number += 1
            self._spools.mkdir(parents=True, exist_ok=True)  # Somebody may have removed it.
            spool = Spool(self._spools, f"{self._writer}-{self._number:06d}", schema_of(plan))
            self._open, self._settings = _Open(spool, plan, hour, self._clock()), plan.settings
        self._open.spool.add(batch)
        self.counts["bytes"] += batch.nbytes
        if self._open.spool.num_bytes >= plan.settings.file_bytes:
            self._close()
        return len(requests)

    def look_after(self) -> None:
        """Seals what is due, and from time to time also what dead servers have left; removes the oldest files."""
        now = self._clock()
        if self._open and (
            now - self._open.since_s >= self._open.plan.settings.file_every_s or hour_folder(now) != self._open.hour
        ):
            self._close()
        if now - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now
        for path in orphans(self._spools):
            self._seal(path)
        if self._settings:
            self._remove_old(self._settings, min(now, self._storage_s(now)))

    def close(self) -> None:
        """Seals what is open."""
        if self._open:
            self._close()

    def _close(self) -> None:
        opened, self._open = self._open, None
        assert opened is not None
        try:
            if opened.spool.is_removed:
                self.counts["lost"] += opened.spool.num_requests
                _LOG.warning(
                    "request_log=removed", f"{opened.spool.path}: is gone, with {opened.spool.num_requests} requests"
                )
            else:
                self._seal(opened.spool.path)
        finally:
            opened.spool.close()

    def _seal(self, spool: Path) -> None:
        """Seals a spool; one that cannot be sealed now, for example on a full disk, stays, and is found as orphan."""
        try:
            file, num_requests, is_torn = seal(spool, self._root)
        except OSError as error:
            _LOG.warning("request_log=not_sealed", f"{spool.name}: {error}")
            return
        self.counts["files"] += file is not None
        if not spool.name.startswith(self._writer):
            self.counts["recovered"] += num_requests
            self.counts["torn"] += is_torn

    def _storage_s(self, now: float) -> float:
        """Returns the time by the storage's clock: a server that is ahead must not remove what others have written."""
        probe = self._spools / f"{self._writer}.clock"
        try:
            probe.touch()
            written_s = probe.stat().st_mtime
            probe.unlink()
        except OSError:
            return now  # The disk may be full: removing helps.
        return written_s

    def _remove_old(self, settings: RequestLog, now: float) -> None:
        """Removes the oldest sealed files beyond the declared days and size."""
        first = datetime.datetime.fromtimestamp(now, datetime.UTC).date() - datetime.timedelta(days=settings.keep_days)
        files = sorted(_sealed_files(self._root))
        total = sum(size for _, _, size in files)
        for day, path, size in files:
            if day >= first.isoformat() and total <= settings.max_bytes:
                break
            with contextlib.suppress(FileNotFoundError):  # Another server has removed it.
                path.unlink()
                self.counts["removed"] += 1
            total -= size
            for folder in (path.parent, path.parent.parent):
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _sealed_files(root: Path) -> list[tuple[str, Path, int]]:
    """Returns the day, path and size of each sealed file."""
    found = []
    for path in root.glob("[0-9]*/[0-9]*/*"):
        match = SEALED.fullmatch(path.relative_to(root).as_posix())
        with contextlib.suppress(FileNotFoundError):
            if match:
                found.append((match[1], path, path.stat(follow_symlinks=False).st_size))
    return found


def _writer_name(now: float) -> str:
    """Returns a name that no other process has: those of two pods may have the same number."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:63]
    return f"{host}-{os.getpid()}-{int(now)}-{secrets.token_hex(3)}"

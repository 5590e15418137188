"""Requests on disk before their file is sealed: a stream of Arrow's, to which each batch is added whole.

A spool belongs to the process that holds its lock; the kernel releases it when that process ends, however it ends.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sangam.components.arrow_files import open_stream
from sangam.schemas.contracts.request_log import (
    AT,
    CANDIDATE,
    CANDIDATES_KEY,
    NUM_CANDIDATES,
    OPEN_SUFFIX,
    SEALED_SUFFIX,
    hour_folder,
)
from sangam.schemas.host.files import sync

_ROW_GROUP_BYTES = 16 * 2**20
_COMPRESSION, _LEVEL = "zstd", 1


class Spool:
    """A file that is written.

    Attributes:
        path: its path.
        schema: columns.
        num_bytes: size.
        num_requests: rows.
    """

    def __init__(self, folder: Path, name: str, schema: pa.Schema):
        """Creates and locks the file.

        Raises:
            OSError: it cannot be written.
        """
        self.path, self.schema = folder / f"{name}{OPEN_SUFFIX}", schema
        self.num_bytes = self.num_requests = 0
        aside = folder / f".{name}"
        # Under its own name only once it is locked: nobody may take it for a dead server's.
        self._fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(schema.serialize())
            aside.rename(self.path)
        except BaseException:
            self.close()
            aside.unlink(missing_ok=True)
            raise

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows, all or none.

        Raises:
            OSError: they cannot be written.
        """
        self._write(batch.serialize())
        self.num_requests += batch.num_rows

    @property
    def is_removed(self) -> bool:
        """Whether somebody has removed the file, for example the folder: what it has is lost."""
        return os.fstat(self._fd).st_nlink == 0

    def close(self) -> None:
        """Closes the file, and releases its lock; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write(self, message: pa.Buffer) -> None:
        rest = memoryview(message)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os.ftruncate(self._fd, self.num_bytes)
            os.lseek(self._fd, self.num_bytes, os.SEEK_SET)
            raise
        self.num_bytes += message.size


def orphans(folder: Path) -> Iterator[Path]:
    """Yields the spools of servers that have ended, each locked while the caller has it."""
    for path in sorted(folder.glob(f"*{OPEN_SUFFIX}")):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # Another server has sealed it.
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                yield path
        except BlockingIOError:
            continue
        finally:
            os.close(fd)


def seal(spool: Path, folder: Path) -> tuple[Path | None, int, bool]:
    """Writes the requests of a spool to a file below a folder, whole or not at all, and removes the spool.

    A killed server's spool may end within a batch: the batches before it are sealed. Sealed again after a kill, a spool
    gives the same file.

    Returns:
        The file, None without requests; the number of requests; whether the spool ended within a batch.

    Raises:
        OSError: it cannot be written; the spool stays.
    """
    schema, batches, is_torn = _batches(spool)
    num_requests = sum(batch.num_rows for batch in batches)
    target = None
    if schema is not None and num_requests:
        first_s = batches[0].column(batches[0].schema.get_field_index(AT))[0].value / 1e6
        target = folder / hour_folder(first_s) / f"{spool.name.removesuffix(OPEN_SUFFIX)}{SEALED_SUFFIX}"
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}")  # The spool's lock is held: no other process writes it.
        try:
            _write(aside, schema, batches)
            sync(aside)
            os.replace(aside, target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync(target.parent)
    spool.unlink(missing_ok=True)
    return target, num_requests, is_torn


def _batches(spool: Path) -> tuple[pa.Schema | None, list[pa.RecordBatch], bool]:
    """Returns the whole batches of a spool, in the pages of its file, and whether there is more than them."""
    batches: list[pa.RecordBatch] = []
    try:
        reader = open_stream(pa.memory_map(str(spool)))
        while True:
            batches.append(reader.read_next_batch())
    except StopIteration:
        return reader.schema, batches, False
    except (pa.ArrowException, OSError):
        return batches[0].schema if batches else None, batches, True


def _write(path: Path, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(path, schema, compression=_COMPRESSION, compression_level=_LEVEL) as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(each.nbytes for each in waiting) >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
        writer.add_key_value_metadata({CANDIDATES_KEY.decode(): str(sum(map(_num_candidates, batches)))})


def _num_candidates(batch: pa.RecordBatch) -> int:
    """Returns the number of logged candidates."""
    all_of, places = (batch.column(batch.schema.get_field_index(name)) for name in (NUM_CANDIDATES, CANDIDATE))
    return int(pc.sum(pc.coalesce(pc.list_value_length(places), all_of)).as_py() or 0)

"""Writes a rank's rows of a group of tables, and reads them for any number of ranks, block by block."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.trainer_module.checkpoint import blocks
from sangam.trainer_module.checkpoint.blocks import Block, is_owned
from sangam.trainer_module.checkpoint.files import (
    ArrayFile,
    CheckpointError,
    DamagedError,
    FileRecord,
    read_array,
    write_array,
    write_parts,
)
from sangam.trainer_module.checkpoint.manifest import Manifest, record_of, rows_file
from sangam.trainer_module.snapshot import HeldRows, KeysAndRows

KEYS, ROWS, BLOCKS = "keys", "rows", "blocks"


def write_rows(
    folder: Path, rank: int, group: str, held: HeldRows, *, block_rows: int = blocks.BLOCK_ROWS
) -> dict[str, FileRecord]:
    """Writes keys, rows and their blocks. Holds the rows' order and one block in memory.

    Args:
        folder: folder of the checkpoint.
        rank: rank that owns the rows.
        group: name of the group of tables.
        held: the rows.
        block_rows: approximate rows of a block.

    Returns:
        The files, by name.
    """
    order, rows_by_bucket = blocks.order_of(held)
    cuts = list(blocks.cut(rows_by_bucket, block_rows))
    largest = max((end - start for *_, start, end in cuts), default=0)
    files: dict[str, FileRecord] = {}

    def write(name: str, take: Callable[..., NDArray[Any]], dtype: type[np.generic], *width: int) -> list[int]:
        buffer = np.empty([largest, *width], dtype)
        checksums = []

        def parts() -> Iterator[NDArray[Any]]:
            for *_, start, end in cuts:
                part = take(order[start:end], buffer)
                checksums.append(zlib.crc32(part.data))
                yield part

        file = rows_file(rank, group, name)
        files[file] = write_parts(folder / file, (held.num_rows, *width), buffer.dtype, parts())
        return checksums

    keys_crc32, rows_crc32 = write(KEYS, held.take_keys, np.int64), write(ROWS, held.take_rows, np.float32, held.width)
    written = zip(cuts, keys_crc32, rows_crc32, strict=True)
    index = blocks.as_array([Block(*where, *checksums) for where, *checksums in written])
    file = rows_file(rank, group, BLOCKS)
    return files | {file: write_array(folder / file, index)}


class OwnRows:
    """One group's rows in a checkpoint that a rank owns, whichever rank wrote them; nothing else is read.

    Attributes:
        num_rows: number of rows that the rank owns.
    """

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        group: str,
        *,
        rank: int,
        ranks: int,
        is_kept: Callable[[NDArray[Any]], NDArray[np.bool_]] | None = None,
    ):
        """Finds and counts them.

        Args:
            directory: folder of the checkpoint.
            manifest: manifest of the checkpoint.
            group: name of the group of tables.
            rank: rank that owns the rows.
            ranks: number of ranks that read the checkpoint.
            is_kept: filters keys, [n] to [n]; None: keeps all. With it, counting reads all keys of the rank.

        Raises:
            DamagedError: when a file is missing, cut or altered.
        """
        self._directory, self._manifest, self._group = directory, manifest, group
        self._rank, self._ranks, self._is_kept = rank, ranks, is_kept
        self._buckets = blocks.buckets_of_rank(rank, ranks)
        self._writers = blocks.ranks_beside(rank, ranks, manifest.owners)
        self.num_rows = sum(self._counts())

    def blocks(self) -> Iterator[KeysAndRows]:
        """Yields keys, [n] int64, and rows, [n, width] float32; both may overwrite those before them.

        Raises:
            CheckpointError: when a file holds rows that its writer did not own, or is damaged.
        """
        for part in self._writers:
            for keys, rows in self._read(part):
                mine = self._is_mine(keys)
                yield (keys, rows) if mine.all() else (keys[mine], rows[mine])

    def _read(self, part: int) -> Iterator[KeysAndRows]:
        """Yields this rank's rows in the files of another one."""
        with ExitStack() as opened:
            keys_file = opened.enter_context(ArrayFile(*self._file(part, KEYS), np.int64))
            rows_file = opened.enter_context(ArrayFile(*self._file(part, ROWS), np.float32))
            for block in self._blocks_of(part):
                keys = keys_file.read(block.start, block.end, block.keys_crc32)
                if not is_owned(keys, part, self._manifest.owners).all():
                    raise self._strangers(part)
                yield keys, rows_file.read(block.start, block.end, block.rows_crc32)

    def _counts(self) -> Iterator[int]:
        """Yields the numbers of rows to read; keys are read only where they are needed to decide."""
        first, last = self._buckets
        for part in self._writers:
            with ArrayFile(*self._file(part, KEYS), np.int64) as file:
                for block in self._blocks_of(part):
                    if self._is_kept is None and first < block.first_bucket and block.last_bucket < last:
                        yield block.end - block.start
                    else:
                        yield self._count(file.read(block.start, block.end, block.keys_crc32))

    def _count(self, keys: NDArray[Any]) -> int:
        return int(self._is_mine(keys).sum())

    def _is_mine(self, keys: NDArray[Any]) -> NDArray[np.bool_]:
        mine = is_owned(keys, self._rank, self._ranks)
        return mine if self._is_kept is None else mine & self._is_kept(keys)

    def _blocks_of(self, part: int) -> list[Block]:
        """Returns the blocks of a rank that may hold keys of this one."""
        path, record = self._file(part, BLOCKS)
        num_rows = record_of(self._directory, self._manifest, rows_file(part, self._group, KEYS)).shape
        in_file = blocks.from_array(read_array(path, record), num_rows[0] if num_rows else 0)
        if in_file is None:
            raise DamagedError(
                f"{path}: does not fit the keys file (got other row counts than {num_rows}); "
                "the checkpoint is damaged: start from another one"
            )
        first, last = blocks.buckets_of_rank(part, self._manifest.owners)
        if any(block.first_bucket < first or last < block.last_bucket for block in in_file):
            raise self._strangers(part)
        first, last = self._buckets
        return [block for block in in_file if block.first_bucket <= last and first <= block.last_bucket]

    def _strangers(self, part: int) -> CheckpointError:
        return CheckpointError(
            f"{self._directory}: rank {part} holds rows of {self._group} that it does not own; "
            "train from scratch with training.mode: full"
        )

    def _file(self, part: int, name: str) -> tuple[Path, FileRecord]:
        file = rows_file(part, self._group, name)
        return self._directory / file, record_of(self._directory, self._manifest, file)

"""Arrays as .npy files with checksums, which every reader verifies.

zlib's CRC-32 runs at 6 GB/s and releases the interpreter lock, so that the thread that writes does not slow down the
one that trains; the disk is slower in any case.
"""

import io
import itertools
import math
import os
import stat
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import FrozenModel

_CHUNK_BYTES = 4 << 20
_NPY: Any = np.lib.format  # without types
_PARSING = threading.Lock()
"""Python 3.11 cannot parse a header, as an expression, in two threads at once: "AST constructor recursion depth"."""


class CheckpointError(UserError):
    """A checkpoint that cannot be used, with the reason and the fix."""


class DamagedError(CheckpointError):
    """A checkpoint whose files have changed since they were written; another one may be intact."""


class FileRecord(FrozenModel):
    """The size, checksum and shape that a file must have when it is read.

    Attributes:
        bytes: length of the file.
        crc32: checksum of all its bytes.
        shape: shape of the array; None for other files.
    """

    bytes: int
    crc32: int
    shape: tuple[int, ...] | None = None


def write_array(path: Path, array: NDArray[Any]) -> FileRecord:
    """Writes an array and waits until the disk has it."""
    array = np.asarray(array, order="C")
    return write_parts(path, array.shape, array.dtype, [array])


def write_parts(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], parts: Iterable[NDArray[Any]]) -> FileRecord:
    """Writes an array part by part, each in C order, and waits until the disk has it."""
    header = io.BytesIO()
    described = {"descr": _NPY.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    _NPY.write_array_header_1_0(header, described)
    data = (part.reshape(-1).view(np.uint8).data for part in parts)
    record = _write(path, itertools.chain([memoryview(header.getvalue())], data))
    return record.model_copy(update={"shape": shape})


def write_bytes(path: Path, content: bytes) -> FileRecord:
    """Writes bytes and waits until the disk has them."""
    return _write(path, [memoryview(content)])


def _write(path: Path, parts: Iterable[memoryview]) -> FileRecord:
    crc = size = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    try:
        for part in parts:
            for start in range(0, len(part), _CHUNK_BYTES):
                chunk = part[start : start + _CHUNK_BYTES]
                crc = zlib.crc32(chunk, crc)
                while chunk:
                    chunk = chunk[os.write(descriptor, chunk) :]
            size += len(part)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return FileRecord(bytes=size, crc32=crc)


def read_array(path: Path, record: FileRecord) -> NDArray[Any]:
    """Reads an array.

    Raises:
        DamagedError: when the file is not the one that was recorded.
    """
    _check_size(path, record)
    with path.open("rb", buffering=0) as file:
        reading = _Reading(path, record, file)
        array = np.empty(reading.shape, reading.dtype)
        reading.fill(array)
        reading.check()
    return array


def read_blocks(path: Path, record: FileRecord, num_rows: int) -> Iterator[NDArray[Any]]:
    """Yields an array in blocks of rows, the last one shorter; each block overwrites the one before it.

    The checksum is verified after the last block: use no result of the blocks before that.

    Raises:
        DamagedError: when the file is not the one that was recorded.
    """
    _check_size(path, record)
    with path.open("rb", buffering=0) as file:
        reading = _Reading(path, record, file)
        total, *rest = reading.shape
        buffer = np.empty([min(num_rows, total), *rest], reading.dtype)
        for start in range(0, total, num_rows):
            block = buffer[: total - start]
            reading.fill(block)
            yield block
        reading.check()


class ArrayFile:
    """An array's file that is read in runs of rows, each with its own checksum."""

    def __init__(self, path: Path, record: FileRecord, dtype: type[np.generic]):
        """Opens the file.

        Args:
            path: an .npy file.
            record: expected size, checksum and shape.
            dtype: expected type of the numbers; the header has no checksum of its own.

        Raises:
            DamagedError: when the file is not the one that was recorded.
        """
        _check_size(path, record)
        self._file = path.open("rb", buffering=0)
        try:
            self._reading = _Reading(path, record, self._file)
            if self._reading.dtype != dtype:
                raise _damaged(path, f"holds {self._reading.dtype}", np.dtype(dtype).name)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, start: int, end: int, crc32: int) -> NDArray[Any]:
        """Returns the rows from `start` up to `end`.

        Raises:
            DamagedError: when they are not those that were written.
        """
        array = np.empty([end - start, *self._reading.shape[1:]], self._reading.dtype)
        self._reading.fill_run(array, start, crc32)
        return array


class _Reading:
    """An array's file while it is read, from start to end or in runs."""

    def __init__(self, path: Path, record: FileRecord, file: BinaryIO):
        self._path, self._record, self._file = path, record, file
        try:
            _NPY.read_magic(file)
            with _PARSING:
                self.shape, _, self.dtype = _NPY.read_array_header_1_0(file)
        except ValueError as error:
            raise _damaged(path, f"has no readable header: {error}", "a .npy file") from error
        self._header_bytes = file.tell()
        if self.dtype.hasobject:  # The bytes of an object array would be taken for addresses of Python objects.
            raise _damaged(path, f"holds {self.dtype}", "numbers")
        data_bytes = math.prod(self.shape) * self.dtype.itemsize
        if self.shape != record.shape or self._header_bytes + data_bytes != record.bytes:
            raise _damaged(path, f"holds {self.shape}", f"{record.shape}")
        file.seek(0)
        self._crc = zlib.crc32(file.read(self._header_bytes))

    def fill(self, array: NDArray[Any]) -> None:
        """Reads the next rows into an array in C order."""
        self._crc = self._read(array, self._crc)

    def fill_run(self, array: NDArray[Any], first: int, crc32: int) -> None:
        """Reads the rows from `first` on into an array in C order, and verifies them alone."""
        self._file.seek(self._header_bytes + first * math.prod(self.shape[1:]) * self.dtype.itemsize)
        crc = self._read(array, 0)
        if crc != crc32:
            rows = f"of rows {first} to {first + len(array)}"
            raise _damaged(self._path, f"checksum {crc:08x} {rows}", f"{crc32:08x}")

    def _read(self, array: NDArray[Any], crc: int) -> int:
        data: Any = array.reshape(-1).view(np.uint8).data
        filled = 0
        while filled < len(data):
            got = self._file.readinto(data[filled : filled + _CHUNK_BYTES])  # type: ignore[attr-defined]
            if not got:
                raise _damaged(self._path, f"ends after {self._file.tell()} bytes", f"{self._record.bytes}")
            crc = zlib.crc32(data[filled : filled + got], crc)
            filled += got
        return crc

    def check(self) -> None:
        """Raises if the file has changed since it was written."""
        _check_crc(self._path, self._crc, self._record)


def read_bytes(path: Path, record: FileRecord) -> bytes:
    """Reads a file of bytes.

    Raises:
        DamagedError: when the file is not the one that was recorded.
    """
    _check_size(path, record)
    content = path.read_bytes()
    _check_crc(path, zlib.crc32(content), record)
    return content


def _check_size(path: Path, record: FileRecord) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise _damaged(path, "no such file", f"{record.bytes} bytes") from None
    if not stat.S_ISREG(status.st_mode):
        raise _damaged(path, "a link or no file at all", f"{record.bytes} bytes")
    if status.st_size != record.bytes:
        raise _damaged(path, f"{status.st_size} bytes", f"{record.bytes}")


def _check_crc(path: Path, crc: int, record: FileRecord) -> None:
    if crc != record.crc32:
        raise _damaged(path, f"checksum {crc:08x}", f"{record.crc32:08x}")


def _damaged(path: Path, got: str, expected: str) -> DamagedError:
    return DamagedError(
        f"{path}: is not what was written (got {got}; the manifest says {expected}); the checkpoint is damaged: "
        "restore it from a backup, or start from another one"
    )

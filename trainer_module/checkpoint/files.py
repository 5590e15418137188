"""Arrays as .npy files, each with the checksum that its reader must find again.

zlib's CRC-32 runs at 6 GB/s and lets go of the interpreter meanwhile, so that a thread that writes does not hold up
the one that trains; a disk takes longer in any case.
"""

import io
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.base import Declaration
from schemas.errors import UserError

_CHUNK_BYTES = 4 << 20
_NPY: Any = np.lib.format  # without types


class CheckpointError(UserError):
    """A checkpoint that cannot be used, with the reason and what to do about it."""


class FileRecord(Declaration):
    """What a reader must find.

    Attributes:
        bytes: length of the file.
        crc32: of all its bytes.
        shape: of the array; None for other files.
    """

    bytes: int
    crc32: int
    shape: tuple[int, ...] | None = None


def write_array(path: Path, array: NDArray[Any]) -> FileRecord:
    """Writes an array and waits until the disk has it."""
    array = np.asarray(array, order="C")
    header = io.BytesIO()
    _NPY.write_array_header_1_0(header, _NPY.header_data_from_array_1_0(array))
    data = array.reshape(-1).view(np.uint8).data
    record = _write(path, [memoryview(header.getvalue()), data])
    return record.model_copy(update={"shape": array.shape})


def write_bytes(path: Path, content: bytes) -> FileRecord:
    """Writes bytes and waits until the disk has them."""
    return _write(path, [memoryview(content)])


def _write(path: Path, parts: Iterable[memoryview]) -> FileRecord:
    crc = size = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
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
        CheckpointError: when the file is not the one that was recorded.
    """
    _check_size(path, record)
    with path.open("rb", buffering=0) as file:
        head = file.read(_CHUNK_BYTES)
        array, start = _empty_array(path, head)
        data = array.reshape(-1).view(np.uint8).data
        crc, filled = zlib.crc32(head), len(head) - start
        if array.shape != record.shape or len(data) + start != record.bytes:
            raise _damaged(path, f"holds {array.shape}", f"{record.shape}")
        data[:filled] = head[start:]
        while filled < len(data):
            got = file.readinto(data[filled : filled + _CHUNK_BYTES])
            if not got:
                raise _damaged(path, f"ends after {start + filled} bytes", f"{record.bytes}")
            crc = zlib.crc32(data[filled : filled + got], crc)
            filled += got
    _check_crc(path, crc, record)
    return array


def _empty_array(path: Path, head: bytes) -> tuple[NDArray[Any], int]:
    """Returns an array of the header's shape and type, and where the data starts."""
    reader = io.BytesIO(head)
    try:
        _NPY.read_magic(reader)
        shape, _, kind = _NPY.read_array_header_1_0(reader)
        return np.empty(shape, kind), reader.tell()
    except (ValueError, MemoryError) as error:
        raise _damaged(path, f"has no readable header: {error}", "a .npy file") from error


def read_bytes(path: Path, record: FileRecord) -> bytes:
    """Reads a file of bytes.

    Raises:
        CheckpointError: when the file is not the one that was recorded.
    """
    _check_size(path, record)
    content = path.read_bytes()
    _check_crc(path, zlib.crc32(content), record)
    return content


def _check_size(path: Path, record: FileRecord) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise _damaged(path, "no such file", f"{record.bytes} bytes") from None
    if size != record.bytes:
        raise _damaged(path, f"{size} bytes", f"{record.bytes}")


def _check_crc(path: Path, crc: int, record: FileRecord) -> None:
    if crc != record.crc32:
        raise _damaged(path, f"checksum {crc:08x}", f"{record.crc32:08x}")


def _damaged(path: Path, got: str, expected: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: is not what was written (got {got}; the manifest says {expected}); "
        f"the checkpoint is damaged: remove {path.parent} to go on from the one before it"
    )

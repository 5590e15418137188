"""Opens Parquet and Arrow files; no other module does.

Before release 14.0.1, pyarrow unpickles what a file names as a Python extension type, and so runs the file's code
(CVE-2023-47248). Such files are refused here, with any release.
"""

import contextlib
import functools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sangam.schemas.errors import UserError

_PYTHON_TYPE = "arrow.py_extension_type"
_ONE_AT_A_TIME = threading.Lock()


def open_parquet(source: Path | BinaryIO | pa.NativeFile, *, buffer_size: int = 0) -> pq.ParquetFile:
    """Opens a Parquet file, and reads its footer.

    Raises:
        pa.ArrowException: it is not Parquet, or has a column of a Python extension type.
        OSError: it cannot be read.
    """
    _refuse_python_types()
    return pq.ParquetFile(source, buffer_size=buffer_size)


def read_parquet(source: Path | bytes, place: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns the rows of a small Parquet file that a step has written.

    Args:
        source: its path or its content.
        place: path for the error.
        columns: columns to read; None: all.

    Raises:
        UserError: it cannot be read.
    """
    try:
        file = open_parquet(pa.BufferReader(source) if isinstance(source, bytes) else source)
        table = file.read(columns=columns)
        return table.select(columns or table.column_names)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise UserError(f"{place}: cannot be read (got: {error}); repeat the step that writes it") from None


def read_arrow(content: bytes, place: str) -> pa.Table:
    """Returns the rows of a file in Arrow's file format, which a step has written.

    Raises:
        UserError: it cannot be read.
    """
    _refuse_python_types()
    try:
        with pa.ipc.open_file(pa.BufferReader(content)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{place}: cannot be read (got: {error}); remove it, and run again") from None


def open_stream(content: bytes | pa.NativeFile) -> pa.ipc.RecordBatchStreamReader:
    """Opens record batches in Arrow's stream format."""
    _refuse_python_types()
    return pa.ipc.open_stream(content)


def _refuse_python_types() -> None:
    with _ONE_AT_A_TIME:
        _register()


@functools.cache
def _register() -> None:
    # Beam imports it too, and whichever import is the second changes nothing. Its own error would disassemble code of
    # any length.
    import pyarrow_hotfix  # noqa: F401

    with contextlib.suppress(KeyError):  # pyarrow 21 has no such type any more.
        pa.unregister_extension_type(_PYTHON_TYPE)
    pa.register_extension_type(_Refused(pa.null(), _PYTHON_TYPE))


class _Refused(pa.ExtensionType):
    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: Any, _serialized: bytes) -> Any:
        raise pa.ArrowInvalid(
            "a column has a Python extension type, and reading it would run code of the file; write it as a plain type"
        )

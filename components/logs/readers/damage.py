"""What is wrong with a file that a reader refuses: damaged bytes, or content that the reader does not know.

`sangam run` and `sangam init` take their texts from here.
"""

import gzip
import io
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

import pyarrow as pa

from sangam.components.arrow_files import open_parquet

ERRORS = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError)
"""Errors of pyarrow's readers."""
_MAGIC = b"PAR1"
_DAMAGED = re.compile(
    r"corrupt|codec failed|thrift|page header|end of stream|truncated|too few bytes|smaller than|out of bounds"
    r"|crc|invalid (block|distance|stored|code)|unexpected end|end-of-stream|not a gzipped",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"not (yet )?implemented|unsupported|not supported|unknown encoding|encrypted", re.IGNORECASE)
_GZIP = b"\x1f\x8b"


def parquet_problem(file: BinaryIO, path: str, error: Exception, columns: Sequence[str] = ()) -> str:
    """Returns the error text for a Parquet file.

    Args:
        file: the file.
        path: path of the file.
        error: error of pyarrow.
        columns: columns that were read; the text names the one that cannot be.
    """
    file.seek(0)
    start = file.read(len(_MAGIC))
    file.seek(-min(len(_MAGIC), file.seek(0, io.SEEK_END)), io.SEEK_END)
    end = file.read()
    got = _first_line(error)
    if start != _MAGIC:
        return f"{path}: is not a Parquet file (got {start!r} at its start); choose its format under data, or remove it"
    if end not in (_MAGIC, b"PARE"):
        return f"{path}: is truncated: a Parquet file ends with {_MAGIC!r} (got {end!r}); write it again"
    if isinstance(error, UnicodeDecodeError):
        return f"{path}: the name of a column is not UTF-8 (got {error.object!r}); rename it"
    place = f"{path}: {_refused_column(file, columns)}"
    if _UNKNOWN.search(got) or isinstance(error, pa.ArrowNotImplementedError):
        return (
            f"{place}cannot be read by pyarrow {pa.__version__} (got: {got}); write it with plain or dictionary "
            "encoding and without encryption"
        )
    if _DAMAGED.search(got):
        return f"{place}is damaged (got: {got}); write it again"
    return f"{place}cannot be read (got: {got}); read it with another tool to see whether it is whole"


def _refused_column(file: BinaryIO, columns: Sequence[str]) -> str:
    for name in columns:
        try:
            file.seek(0)
            for _ in open_parquet(file, buffer_size=2**20).iter_batches(columns=[name]):
                pass
        except ERRORS:
            return f"column '{name}': "
    return ""


def unread(path: str, error: Any) -> str:
    """Returns the error text for a file of text or records that a reader gave up."""
    got = _first_line(error)
    if isinstance(error, EOFError) or _DAMAGED.search(got):
        return f"{path}: is damaged or truncated (got: {got}); write it again"
    return f"{path}: cannot be read (got: {got})"


def _first_line(error: Any) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def plain(file: BinaryIO) -> BinaryIO:
    """Returns a file's content without gzip's compression, whatever its name says."""
    start = file.read(len(_GZIP))
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if start == _GZIP else file

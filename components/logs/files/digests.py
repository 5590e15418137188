"""Digests of files' content, sha256, cached with the file's size and modification time.

A change that keeps size and time goes unnoticed until `sangam run --reread` reads everything again.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import BaseModel

from sangam.components.logs.files.listing import THREADS, FileFacts, first_problems
from sangam.components.logs.files.resolve import DataFile
from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import write_whole

_LOG = logging.getLogger(__name__)

FORMAT: Literal[1] = 1
"""Format number of the cache."""

_MOST_KEPT = 200_000
_SETTLED_NS = 2 * 10**9
"""Digests of files modified more recently are not cached: where times are coarse, the next change may have the same."""
_CHUNK_BYTES = 2**18

_Kept = dict[str, tuple[int, int, str]]


class _Cache(BaseModel):
    format: Literal[1] = FORMAT
    files: _Kept


def digests_of(
    files: Sequence[DataFile],
    pipeline_root: str,
    open_file: Callable[[str], BinaryIO],
    now_ns: Callable[[], int] = time.time_ns,
) -> dict[str, str]:
    """Returns the sha256 of each file's content, by path.

    Args:
        files: files to read, unless cached.
        pipeline_root: local folder of the cache.
        open_file: opens a path for reading.
        now_ns: nanoseconds since 1970.

    Raises:
        UserError: for files that cannot be read or are being written (the first ten).
    """
    cache = Root(pipeline_root).digests
    cached = _read(cache)
    digests = {file.path: digest for file in files if (digest := _known(cached, file))}
    rest = [file for file in files if file.path not in digests]
    if rest:
        _LOG.info("event=digesting num_files=%d bytes=%d", len(rest), sum(file.facts.size_bytes for file in rest))
    began_ns = now_ns()
    new = sha256_of(rest, open_file)
    digests |= new
    settled = {
        file.path: (file.facts.size_bytes, file.facts.mtime_ns, new[file.path])
        for file in rest
        if file.facts.mtime_ns < began_ns - _SETTLED_NS
    }
    if settled:
        _keep(cache, settled)
    return digests


def sha256_of(files: Sequence[DataFile], open_file: Callable[[str], BinaryIO]) -> dict[str, str]:
    """Returns the sha256 of each file's content, by path, without the cache.

    Raises:
        UserError: for files that cannot be read or are being written (the first ten).
    """
    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(lambda file: _digest(file, open_file), files))
    if errors := [error for _, error in found if error]:
        raise UserError("\n".join(first_problems(errors)))
    return {file.path: digest for file, (digest, _) in zip(files, found, strict=True)}


def forget(pipeline_root: Path) -> None:
    """Removes the cache, so that the next run reads every file."""
    Root(str(pipeline_root)).digests.unlink(missing_ok=True)


def _known(known: _Kept, file: DataFile) -> str:
    size, mtime, digest = known.get(file.path, (None, None, ""))
    return digest if FileFacts(size or 0, mtime or 0) == file.facts else ""


def _digest(file: DataFile, open_file: Callable[[str], BinaryIO]) -> tuple[str, str]:
    """Returns the digest and an error, one of them empty."""
    digest, size = hashlib.sha256(), 0
    try:
        with open_file(file.path) as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        return "", f"{file.path}: cannot be opened (got: {error}); check its permissions"
    if size != file.facts.size_bytes:
        return "", (
            f"{file.path}: is being written (got {size} bytes, listed with {file.facts.size_bytes}); run it again when "
            "the logs of the window are complete"
        )
    return digest.hexdigest(), ""


def _read(cache: Path) -> _Kept:
    try:
        document = json.loads(cache.read_bytes())
        refuse_other_format(cache, document, FORMAT, "every file is read again")
        return _Cache.model_validate(document).files
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, UserError) as error:
        # It is only a cache: missing files are read again.
        _LOG.warning("event=digests_unreadable path=%s error=%s", cache, str(error).splitlines()[0])
        return {}


def _keep(cache: Path, new: Mapping[str, tuple[int, int, str]]) -> None:
    """Writes the cache atomically; digests that another run writes at the same time are lost, and computed again."""
    # The newest last, so that the least recently read digests are removed first.
    kept = {path: row for path, row in _read(cache).items() if path not in new} | dict(new)
    kept = dict(list(kept.items())[-_MOST_KEPT:])
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_whole(cache, _Cache(files=kept).model_dump_json().encode())
    except OSError as error:
        _LOG.warning("event=digests_not_kept path=%s error=%s", cache, error)

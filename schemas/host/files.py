"""Small local files: atomic writes, and the end of a log for an error message."""

import contextlib
import datetime
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sangam.schemas.errors import UserError

_TAIL_BYTES = 16_384


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file atomically, and waits until the disk has its bytes.

    A reader sees the old file or the new one, also with several writers at once. Text is UTF-8.
    """
    # A process id is not unique: pods that share a volume have the same ones.
    aside = path.with_name(f".tmp-{secrets.token_hex(4)}-{path.name}")
    try:
        with aside.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_first(path: Path, content: str) -> None:
    """Writes a file unless there is one: of several writers the first one wins, and readers see its whole text."""
    aside = path.with_name(f".tmp-{secrets.token_hex(4)}-{path.name}")
    write_whole(aside, content)
    try:
        os.link(aside, path)
    except FileExistsError:
        return
    except OSError:
        # Mounted object stores have no links.
        if not path.exists():
            os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def link_whole(path: Path, target: str) -> None:
    """Makes a path a link to a target, atomically: a reader sees the old link or the new one."""
    aside = path.with_name(f".tmp-{secrets.token_hex(4)}-{path.name}")
    os.symlink(target, aside)
    try:
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Waits until the disk has a file's bytes, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: Path, *, first: str = "") -> None:
    """Removes a folder; of a link only the link, never what it leads to.

    Args:
        path: may not exist.
        first: file that makes the folder complete: it is removed before the others, so that no part looks complete.
    """
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        if first:
            (path / first).unlink(missing_ok=True)
            sync(path)
        shutil.rmtree(path)


def first_link(path: Path, below: Path) -> Path | None:
    """Returns the first part of a path after the folder `below` that is a link; None without one."""
    parts = [part for part in (*reversed(path.parents), path) if part != below and part.is_relative_to(below)]
    return next((part for part in parts if part.is_symlink()), None)


def refuse_links(path: Path, below: Path) -> None:
    """Refuses a path in which a part after the folder `below` is a link: what is written there would be elsewhere.

    Raises:
        UserError: with the link.
    """
    if link := first_link(path, below):
        raise UserError(
            f"{link}: is a link (got one to {os.readlink(link)}); nothing is written or removed through links: put the "
            "folder itself there, or remove the link"
        )


def refuse_links_within(folder: Path) -> None:
    """Refuses a folder that is a link or has one in it.

    Raises:
        UserError: with the link.
    """
    refuse_links(folder, folder.parent)
    for parent, folders, names in os.walk(folder):
        for name in sorted([*folders, *names]):
            refuse_links(Path(parent, name), Path(parent))


def read_end(path: Path, max_bytes: int, *, start: int = 0) -> str:
    """Returns the last bytes of a file as text; empty if there is no file.

    Args:
        path: may not exist.
        max_bytes: largest number of bytes.
        start: first byte that may be returned.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(start, os.fstat(file.fileno()).st_size - max_bytes))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def json_line(fields: Mapping[str, Any], now: float) -> str:
    """Returns a line of a file that others follow: JSON whose member `at` is the time, UTC in ISO 8601."""
    at = datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="milliseconds")
    return json.dumps({"at": at.replace("+00:00", "Z"), **fields}, default=str) + "\n"


def add_json_line(file: Path, fields: Mapping[str, Any]) -> None:
    """Adds a line with the time to a file. A full disk is ignored: the writer does not depend on the line."""
    with contextlib.suppress(OSError), file.open("a", encoding="utf-8") as lines:
        lines.write(json_line(fields, time.time()))


def json_lines(file: Path, max_bytes: int = sys.maxsize) -> list[dict[str, Any]]:
    """Returns the complete lines that are JSON objects, in their order; none where there is no file.

    Args:
        file: file that may be written meanwhile, and may hold the remains of a killed process.
        max_bytes: number of bytes from its end.
    """
    found = []
    try:
        # Text after the last line's end is still being written.
        lines = read_end(file, max_bytes).split("\n")[:-1]
    except OSError:
        return []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return [fields for fields in found if isinstance(fields, dict)]


def tail(log: Path, lines: int, *, start: int | None = None) -> str:
    """Returns the last lines of a log, at most 16 KiB.

    Args:
        log: may not exist.
        lines: largest number of lines.
        start: first byte that may be returned; None: a log without any says `(empty log)` or `(no log)`.
    """
    lines_read = read_end(log, _TAIL_BYTES, start=start or 0).rstrip().splitlines()[-lines:]
    if lines_read or start is not None:
        return "\n".join(lines_read)
    return "(empty log)" if log.exists() else "(no log)"

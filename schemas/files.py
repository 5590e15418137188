"""Small local files: written whole or not at all, and the end of a log, for an error message."""

import os
import secrets
from pathlib import Path

_TAIL_BYTES = 16_384


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file that others see whole or not at all, and waits until the disk has its bytes.

    A reader sees the file of before or the new one, and writers at the same time do not mix theirs. Texts are UTF-8.
    """
    # A process id would not do: pods that share a volume have the same ones.
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


def sync(path: Path) -> None:
    """Waits until the disk has a file's bytes, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_end(path: Path, max_bytes: int, *, start: int = 0) -> str:
    """Returns the last bytes of a file as text; empty where there is no file.

    Args:
        path: of the file.
        max_bytes: how many at most.
        start: what lies before this byte is left out.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(start, os.fstat(file.fileno()).st_size - max_bytes))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def tail(log: Path, lines: int) -> str:
    """Returns the last lines of a log, at most 16 KiB of them, or a word where there are none."""
    found = read_end(log, _TAIL_BYTES).rstrip().splitlines()[-lines:]
    return "\n".join(found) or ("(empty log)" if log.exists() else "(no log)")

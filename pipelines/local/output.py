"""Redirection of output: the terminal shows only the progress, all other output goes to files."""

import contextlib
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from sangam.schemas.host.plain_text import UTF8_OUTPUT


def keep_stream(fd: int) -> TextIO:
    """Returns a stream to the present target of a descriptor; child processes do not inherit the stream.

    It has the encoding of standard output, and escapes what that does not have.
    """
    return os.fdopen(os.dup(fd), "w", buffering=1, encoding=sys.stdout.encoding, errors="backslashreplace")


def send_output_to(path: Path) -> None:
    """Appends file descriptors 1 and 2 to a file, for this process, its libraries and its children, in UTF-8.

    Descriptors, not sys.stdout: TensorFlow and the trainer's processes bypass Python.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # A run must be able to report a full disk.
            stream.flush()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    os.environ.update(UTF8_OUTPUT)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")

"""Results that a step computes from one day's examples, stored beside them for later runs."""

import hashlib
import posixpath
import uuid
from collections.abc import Sequence

from tfx.dsl.io import fileio

TEMPORARY = "*." + 32 * "[0-9a-f]"
"""Pattern of the files that `write_result` leaves if it is killed."""


def result_file(folder: str, step: str, *key: str) -> str:
    """Returns the file of a step's result.

    Args:
        folder: folder of the day's examples.
        step: name of the step.
        key: everything that the result depends on besides the examples, such as code and options.
    """
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()
    return posixpath.join(folder, f"{step}-{digest[:32]}")


def read_result(file: str) -> bytes | None:
    """Returns a result; None if there is none yet."""
    if not fileio.exists(file):
        return None
    with fileio.open(file, "rb") as opened:
        content: bytes = opened.read()
    return content


def write_result(file: str, content: bytes) -> None:
    """Writes a result atomically. Two runs may write the same one at the same time."""
    temporary = f"{file}.{uuid.uuid4().hex}"
    with fileio.open(temporary, "wb") as opened:
        opened.write(content)
    fileio.rename(temporary, file, overwrite=True)


def missing(files: Sequence[str]) -> list[str]:
    """Returns the missing results."""
    return [file for file in files if not fileio.exists(file)]

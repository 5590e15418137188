"""Format numbers: a file that outlives its writer has one, and readers check it."""

from pathlib import Path
from typing import Any

from sangam.schemas.errors import UserError


def refuse_other_format(file: str | Path, document: Any, known: int, remedy: str) -> None:
    """Checks the format of a file before anything else in it is read.

    Args:
        file: name of the file in errors.
        document: parsed JSON of the file.
        known: format of the reader.
        remedy: fix for another format.

    Raises:
        UserError: it has another format.
    """
    got = document.get("format") if isinstance(document, dict) else None
    if got != known or isinstance(got, bool):
        raise UserError(f"{file}: format is not {known} (got {'none' if got is None else repr(got)}); {remedy}")

"""Format numbers: a file that outlives the process that wrote it says which format it has, and readers check it."""

from pathlib import Path
from typing import Any

from schemas.errors import UserError


def refuse_other_format(file: str | Path, document: Any, known: int, remedy: str) -> None:
    """Checks the format of a file before anything else of it is read.

    Args:
        file: names it in the error.
        document: what it holds, as parsed from JSON.
        known: the format that the reader knows.
        remedy: what to do about another one.

    Raises:
        UserError: it has another format, or none.
    """
    got = document.get("format") if isinstance(document, dict) else None
    if got != known or isinstance(got, bool):
        raise UserError(f"{file}: format is not {known} (got {'none' if got is None else repr(got)}); {remedy}")

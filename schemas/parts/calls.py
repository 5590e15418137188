"""Calls of the methods of parts of others: a mistake in one is told with its file and line."""

import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from sangam.schemas.errors import UserError
from sangam.schemas.parts.kinds import Part, place_of


def told(part: Part, method: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a part's method returns.

    Raises:
        UserError: for any exception that it raises, with the innermost of its own lines.
    """
    try:
        return method(*arguments)
    except UserError:
        raise
    except Exception as error:
        name = getattr(method, "__name__", part.compute)
        place = _line_of(part, error.__traceback__) or place_of(type(part))
        raise UserError(
            f"{place}: {type(error).__name__}: {first_line(error)} (got this from `{name}` of "
            f"{part.role} '{part.kind}'); mend the part: docs/parts.md says what its method is given"
        ) from error


def refused(part: Part, what: str, wanted: str, method: str = "") -> UserError:
    """Returns the error for a wrong result of a method, by default of the one that computes a part."""
    method = f"`{method or part.compute}` of {part.role} '{part.kind}'"
    return UserError(f"{place_of(type(part))}: {method} {what}; it returns {wanted}")


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's text that is not empty."""
    return next((line for line in str(error).splitlines() if line.strip()), "no text")


def _line_of(part: Part, trace: TracebackType | None) -> str:
    """Returns the innermost line of a traceback that is of the part's package; "" without one."""
    package = type(part).__module__.split(".")[0]
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == package]
    files = {getattr(module, "__file__", None) for module in modules}
    lines = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(trace) if each.filename in files]
    return lines[-1] if lines else ""

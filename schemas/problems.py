"""Mistakes in a spec: place, value and remedy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sangam.schemas.errors import UserError

Loc = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One mistake.

    Attributes:
        loc: keys and list positions from the top of the document.
        what: the mistake, with the value got.
        allowed: the allowed values, or the remedy.
        line: in the file, from 1; None if not known.
    """

    loc: Loc
    what: str
    allowed: str
    line: int | None = None

    def __str__(self) -> str:
        path = dotted(self.loc) or "(whole file)"
        at = f"line {self.line}: " if self.line else ""
        return f"{at}{path}: {self.what}; {self.allowed}"


class SpecError(UserError):
    """An invalid spec; the text has one line per problem."""

    def __init__(self, path: Path, problems: Sequence[Problem]):
        self.path = path
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line or 0, dotted(problem.loc))))
        super().__init__("\n".join(f"{path}: {problem}" for problem in self.problems))


def dotted(loc: Loc) -> str:
    """Returns a path in the notation `gates[0].task`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def listed(names: Sequence[str]) -> str:
    """Returns sorted names for an error text, or `none`."""
    return ", ".join(sorted(names)) if names else "none"

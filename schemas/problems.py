"""Mistakes in a spec: place, value and remedy."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
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


_LONG = 80


class SpecError(UserError):
    """An invalid spec; the text has one line per problem, and each long list of allowed values once."""

    def __init__(self, path: Path, problems: Sequence[Problem]):
        self.path = path
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line or 0, dotted(problem.loc))))
        super().__init__("\n".join(f"{path}: {problem}" for problem in _once(self.problems)))


def _once(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yields the problems; of those with the same long text on what is allowed, the later ones refer to the first."""
    first: dict[str, Problem] = {}
    for problem in problems:
        known = first.setdefault(problem.allowed, problem)
        if known is problem or len(problem.allowed) < _LONG:
            yield problem
        else:
            yield Problem(problem.loc, problem.what, f"see {dotted(known.loc)} for what is allowed", problem.line)


def dotted(loc: Loc) -> str:
    """Returns a path in the notation `gates[0].task`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns a hint at the known name that a wrong one may stand for, with a space after it; empty without one."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean '{close[0]}'? " if close else ""


def listed(names: Sequence[str]) -> str:
    """Returns sorted names for an error text, or `none`."""
    return ", ".join(sorted(names)) if names else "none"

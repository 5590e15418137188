"""The mistakes across sections of a document that also has mistakes within them."""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pydantic

from sangam.schemas.checks import find_problems
from sangam.schemas.problems import Loc, Problem, dotted
from sangam.schemas.spec import Spec

_WORD = re.compile(r"[\w.-]+")


def further_problems(document: dict[str, Any], known: Sequence[Problem]) -> list[Problem]:
    """Returns the mistakes of what is left of a document without its wrong parts; none if that is no spec.

    A mistake that has to do with a part that was left out is not among them: it may be none once that part is right.
    """
    left, kept = _without(document, {problem.loc[:2] for problem in known})
    try:
        spec = Spec.model_validate_json(json.dumps(left))
    except pydantic.ValidationError:
        return []
    gone = {word for problem in known for word in _words_at(document, problem.loc[:2])}
    found = [_at_old_place(problem, kept) for problem in find_problems(spec)]
    return [problem for problem in found if not gone & _words_of(problem)]


def _without(document: dict[str, Any], places: set[Loc]) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Returns a copy without some places, and the positions of what is left of each list among them."""
    left, kept = copy.deepcopy(document), {}
    for section in {str(place[0]) for place in places if place}:
        within = {place[1] for place in places if place[0] == section and len(place) > 1}
        match left.get(section):
            case dict() as members if within:
                left[section] = {name: value for name, value in members.items() if name not in within}
            case list() as items if within:
                kept[section] = [position for position in range(len(items)) if position not in within]
                left[section] = [items[position] for position in kept[section]]
            case _:
                left.pop(section, None)
    return left, kept


def _at_old_place(problem: Problem, kept: dict[str, list[int]]) -> Problem:
    match problem.loc:
        case (str(section), int(position), *rest) if section in kept:
            return Problem((section, kept[section][position], *rest), problem.what, problem.allowed)
    return problem


def _words_of(problem: Problem) -> set[str]:
    """Returns the names that a problem has to do with."""
    return {str(part) for part in problem.loc} | set(_WORD.findall(f"{problem.what} {dotted(problem.loc)}"))


def _words_at(document: dict[str, Any], place: Loc) -> Iterator[str]:
    """Yields the names at and below a place: a part of this name may be missed by others."""
    node: Any = document
    for part in place:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            node = None
    if len(place) > 1 and isinstance(place[-1], str):
        yield place[-1]
    if place == ("evaluation", "metrics") and isinstance(node, dict):
        yield from node
    yield from _texts(node)


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key != "kind":
                yield from _texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from _texts(value)
    elif isinstance(node, str):
        yield node

"""Changes of a spec as plain data."""

from collections.abc import Mapping
from typing import Any, Final

NULL: Final = object()
"""Stands for null in a change."""


def merged(document: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a document with members changed: mappings member by member, but a kind of its own replaces the whole.

    None takes a member away; `NULL` makes it None.
    """
    made = dict(document)
    for name, value in change.items():
        if value is None:
            made.pop(name, None)
        elif _is_within(made, name, value):
            made[name] = merged(made[name], value)
        else:
            made[name] = None if value is NULL else value
    return made


def combined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one change of two; of the same member, the second one counts."""
    made = dict(first)
    for name, value in second.items():
        made[name] = combined(made[name], value) if _is_within(made, name, value) else value
    return made


def _is_within(document: Mapping[str, Any], name: str, value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(document.get(name), Mapping) and "kind" not in value

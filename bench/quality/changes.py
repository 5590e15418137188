"""Changes of a spec as plain data."""

from collections.abc import Mapping
from typing import Any


def merged(document: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a document with members changed: mappings member by member, but a kind of its own replaces the whole.

    None takes a member away.
    """
    made = dict(document)
    for name, value in change.items():
        if value is None:
            made.pop(name, None)
        elif _is_within(made, name, value):
            made[name] = merged(made[name], value)
        else:
            made[name] = value
    return made


def _is_within(document: Mapping[str, Any], name: str, value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(document.get(name), Mapping) and "kind" not in value

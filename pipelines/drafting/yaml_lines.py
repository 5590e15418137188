"""Lines of YAML with the reasons behind them: short flow mappings, a comment after each or above it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

WIDTH = 120
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./*=-]*")
_NO_TEXTS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


class Lines(dict[str, Any]):
    """A mapping that is written with a line for each key."""


class Aside(str):
    """A key whose line is written as a comment, which the user may uncomment."""


def section(name: str, entries: list[tuple[str, Mapping[str, Any], str]]) -> Iterator[str]:
    """Yields the lines of a section with a line for each entry: key, value, reason; none without entries."""
    if entries:
        yield f"{name}:"
        for key, value, why in entries:
            yield from entry(key, dict(value), why, 2)


def entry(key: str, value: Any, why: str, indent: int = 0) -> Iterator[str]:
    """Yields the line of a key with its comment after it, or above it if the line would be too long."""
    space = " " * indent
    if isinstance(value, Lines):
        yield f"{space}{key}:  # {why}"
        for inner, each in value.items():
            yield from entry(inner, each, "", indent + 2)
        return
    line = space + ("# " if isinstance(key, Aside) else "") + flow({key: value})[1:-1]
    comment = " ".join(why.split())
    if not comment:
        yield line
    elif len(line) + len(comment) + 4 <= WIDTH:
        yield f"{line}  # {comment}"
    else:
        yield f"{space}# {comment}"
        yield line


def flow(value: Any) -> str:
    """Returns plain data on one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NO_TEXTS:
        return value
    # JSON is YAML.
    return json.dumps(value, ensure_ascii=False)

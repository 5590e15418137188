"""Every key of a spec as Markdown tables, derived from the JSON Schema: the reference in docs/spec.md."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_Node = dict[str, Any]
_Group = tuple[str, ...]
"""Names of the definitions of one model, or of all members of a union by kind."""

_FIRST = ("name", "data", "event_time", "tables", "features", "tasks", "model", "training", "input", "cluster")
"""Sections in the order in which people write them; the others follow."""
_NAME = "^[a-z][a-z0-9_]{0,62}$"
_COLUMN = {"type": "string", "minLength": 1, "maxLength": 128}
_ANY = "JsonValue"
"""Pydantic's definition of any value."""
_SHARED_KEYS = 4
"""Fewest keys of a table that another table does not repeat."""


class _Row(NamedTuple):
    key: str
    kinds: str
    type: str
    default: str
    meaning: str


def reference(schema: _Node) -> str:
    """Returns the reference of all keys: a table of the sections, then one of each model or union, each listed once.

    Args:
        schema: the JSON Schema of a spec.
    """
    return _Reference(schema).text()


class _Reference:
    def __init__(self, schema: _Node):
        self._definitions = schema["$defs"]
        self._sections = sorted(
            schema["properties"].items(),
            key=lambda item: _FIRST.index(item[0]) if item[0] in _FIRST else len(_FIRST),
        )
        self._required = schema["required"]
        self._paths: dict[_Group, str] = {}
        for name, node in self._sections:
            self._visit(name, node)
        self._listed: dict[_Group, list[_Row]] = {}

    def text(self) -> str:
        """Returns the whole reference."""
        rows = [self._row(name, node, self._required) for name, node in self._sections]
        parts = ["## Sections", *_tables(rows, by_kind=False)]
        for group, path in self._paths.items():
            first, *others = self._group(group)
            parts += [f"{'###' if _is_nested(path) else '##'} {_code(path)}\n{first}", *others]
        return "\n\n".join(parts) + "\n"

    def _visit(self, path: str, node: _Node, kind: str = "") -> None:
        """Gives every model below a node the path of its first use.

        In brackets follow the first key, if a value may be one of several models, or the kind, if another model has
        the path.
        """
        found = list(_groups(node))
        for suffix, group in found:
            if group in self._paths:
                continue
            home = path + suffix
            if sum(other == suffix for other, _ in found) > 1:
                home += f" ({next(iter(self._definitions[group[0]]['properties']))})"
            elif home in self._paths.values():
                home += f" ({kind})"
            self._paths[group] = home
            for name in group:
                for key, child in self._definitions[name]["properties"].items():
                    self._visit(f"{home}.{key}", child, self._kind(name))

    def _group(self, group: _Group) -> Iterator[str]:
        """Yields the text and the table of a model, or the kinds and the table of a union."""
        by_kind = len(group) > 1
        rows = self._rows(group)
        for other, known in self._listed.items():
            shared = [row for row in known if row in rows]
            if len(shared) < _SHARED_KEYS or len(shared) < min(len(rows), len(known)):
                continue
            link = self._link(other)
            if len(shared) == len(rows):
                missing = ", ".join(_code(row.key) for row in known if row not in rows)
                yield f"The keys of {link} without {missing}."
                return
            yield f"{_linked(self._definitions[group[0]]['description'])} The keys of {link}, and:"
            yield from _tables([row for row in rows if row not in known], by_kind)
            return
        self._listed[group] = rows
        if by_kind:
            yield "\n".join(
                f"- {self._head(name)}: {_linked(self._definitions[name]['description'])}" for name in group
            )
        else:
            yield _linked(self._definitions[group[0]]["description"])
        yield from _tables(rows, by_kind)

    def _rows(self, group: _Group) -> list[_Row]:
        kinds: dict[_Row, list[str]] = {}
        for name in group:
            definition = self._definitions[name]
            for key, node in definition["properties"].items():
                if "const" not in node:
                    row = self._row(key, node, definition.get("required", ()))
                    kinds.setdefault(row, []).append(self._kind(name))
        every = [self._kind(name) for name in group]
        return [row._replace(kinds=_kinds(own, every)) for row, own in kinds.items()]

    def _row(self, key: str, node: _Node, required: Sequence[str]) -> _Row:
        default = "required" if key in required else default_of(node)
        return _Row(key, "", self._type(node), default, _linked(node["description"]))

    def _kind_key(self, name: str) -> str:
        return next((key for key, node in self._definitions[name]["properties"].items() if "const" in node), "")

    def _kind(self, name: str) -> str:
        key = self._kind_key(name)
        properties = self._definitions[name]["properties"]
        return str(properties[key]["const"]) if key else next(iter(properties), "")

    def _head(self, name: str) -> str:
        key, kind = self._kind_key(name), self._kind(name)
        return _code(f"{key}: {kind}" if key else kind)

    def _link(self, group: _Group) -> str:
        path = self._paths[group]
        return f"[{_code(path)}](#{re.sub(r'[^a-z0-9_-]', '', path.replace(' ', '-'))})"

    def _type(self, node: _Node) -> str:
        if group := _group_of(node):
            return self._link(group)
        if "anyOf" in node:
            return " or ".join(dict.fromkeys(self._type(option) for option in _options(node)))
        if values := node.get("enum") or [node[key] for key in ("const",) if key in node]:
            return ", ".join(_code(value) for value in values)
        match node.get("type"):
            case "array" if "prefixItems" in node:
                return f"[{', '.join(self._type(item) for item in node['prefixItems'])}]"
            case "array":
                return f"list of {self._type(node['items'])}"
            case "object":
                key, value = _entries(node)
                return f"mapping of {self._type(key)} to {self._type(value)}"
            case "string" if node.get("pattern") == _NAME:
                return "name"
            case "string" if _COLUMN.items() <= node.items():
                return "column"
            case "integer" | "number":
                return _number(node)
            case "boolean":
                return "bool"
            case str(kind):
                return kind
            case _:
                return "any value"


def _groups(node: _Node) -> Iterator[tuple[str, _Group]]:
    """Yields the models and unions in a node, with the path from the node to each."""
    if group := _group_of(node):
        yield "", group
    for option in _options(node):
        yield from _groups(option)
    if isinstance(node.get("items"), dict):
        for suffix, group in _groups(node["items"]):
            yield f"[]{suffix}", group
    if node.get("type") == "object":
        for suffix, group in _groups(_entries(node)[1]):
            yield f".<name>{suffix}", group


def _group_of(node: _Node) -> _Group:
    names = (str(member.get("$ref", _ANY)).rsplit("/", 1)[-1] for member in node.get("oneOf", [node]))
    return tuple(name for name in names if name != _ANY)


def _options(node: _Node) -> list[_Node]:
    return [option for option in node.get("anyOf", ()) if option.get("type") != "null"]


def _entries(node: _Node) -> tuple[_Node, _Node]:
    """Returns the schemas of a mapping's keys and values."""
    for pattern, value in node.get("patternProperties", {}).items():
        return {"type": "string", "pattern": pattern}, value
    value = node.get("additionalProperties")
    return {"type": "string"} | node.get("propertyNames", {}), value if isinstance(value, dict) else {}


def _number(node: _Node) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    above, below = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    kind = "float"
    if node["type"] == "integer":
        kind = "int"
        low = low if above is None else above + 1
        high = high if below is None else below - 1
        above = below = None
    if low is not None and high is not None:
        return f"{kind}, {low} to {high}"
    bounds = {"from": low, "above": above, "to": high, "below": below}
    return ", ".join([kind, *(f"{word} {bound}" for word, bound in bounds.items() if bound is not None)])


def default_of(node: _Node) -> str:
    """Returns the default of a key as the reference has it: as code, or in words."""
    value = node.get("default", {})
    match value:
        case None:
            return "none"
        case _ if value in ("", [], {}):
            return "empty"
        case {"kind": tag}:
            return _code(f"{{kind: {tag}}}")
        case {"runner": tag}:
            return _code(f"{{runner: {tag}}}")
        case dict():
            return "its defaults"
        case str():
            return _code(value)
        case list():
            return _code(f"[{', '.join(str(item) for item in value)}]")
        case _:
            return _code(json.dumps(value).replace("e-0", "e-"))


def _kinds(own: list[str], every: list[str]) -> str:
    missing = [kind for kind in every if kind not in own]
    if not missing:
        return "all"
    if len(missing) < len(own) - 1:
        return f"all but {', '.join(_code(kind) for kind in missing)}"
    return ", ".join(_code(kind) for kind in own)


def _tables(rows: list[_Row], by_kind: bool) -> Iterator[str]:
    if not rows:
        return
    cells = [(_code(row.key), row.kinds, row.type, row.default, row.meaning) for row in rows]
    heads = ("key", "of", "type", "default", "meaning")
    yield _table(heads, cells) if by_kind else _table(heads[:1] + heads[2:], [row[:1] + row[2:] for row in cells])


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _is_nested(path: str) -> bool:
    return "." in path.replace(".<name>", "")


def _code(value: object) -> str:
    return f"`{value}`"


def _linked(text: str) -> str:
    return re.sub(r"docs/(\w+\.md)(#[\w-]+)?", lambda match: f"[{match[1]}]({match[1]}{match[2] or ''})", text)

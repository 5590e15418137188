"""The JSON Schema of a spec in the form that editors complete, explain and check best.

It accepts the same documents as `json_schema`. What language servers for YAML make of that one is changed: of a union
they offer the keys of all kinds, and tell of a wrong kind only those that look alike; for a key whose default is none
they insert `null`; as titles they show the names of classes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sangam.schemas.loading import json_schema
from sangam.schemas.loading.reference import default_of

SCHEMA_FILE = ".sangam.schema.json"
"""The schema beside a spec: it travels with it, and like each name that starts with a dot is not taken for logs."""
FIRST_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"
"""The line of a spec by which editors find the schema beside it."""

_Node = dict[str, Any]
_Definitions = Mapping[str, _Node]


def editor_schema_text(version: str, parts: Sequence[str] = ()) -> str:
    """Returns `editor_schema` as text."""
    return json.dumps(editor_schema(version, parts), indent=2) + "\n"


def editor_schema(version: str, parts: Sequence[str] = ()) -> _Node:
    """Returns the JSON Schema of a spec file for editors.

    Args:
        version: of Sangam; a part of the schema's name.
        parts: the `parts` of the spec.
    """
    schema = json_schema(parts)
    definitions: _Definitions = schema["$defs"]
    tags = dict(_tags(schema))
    for name, model in definitions.items():
        if "title" in model:
            model["title"] = _title(name, model, tags)
    for model in (schema, *definitions.values()):
        for key, node in model.get("properties", {}).items():
            _explain(key, node)
    named = {"$schema": schema.pop("$schema"), "$id": f"urn:sangam:spec:{version}"}
    return named | _selected_by_tags(schema, definitions)


def _tags(node: Any) -> Iterator[tuple[str, str]]:
    """Yields the name of each member of a union, and the key whose value selects it."""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _tags(child)
    if isinstance(node, dict) and "discriminator" in node:
        for member in node["oneOf"]:
            yield _name_of(member), node["discriminator"]["propertyName"]


def _title(name: str, model: _Node, tags: Mapping[str, str]) -> str:
    if tag := tags.get(name):
        return f"{tag}: {model['properties'][tag]['const']}"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()


def _explain(key: str, node: _Node) -> None:
    """Gives a key its name as title, and tells its default in the description, where editors show it."""
    node["title"] = key
    _name_alternatives(key, node)
    if node.get("default", {}) is None:
        del node["default"]
    elif "default" in node and (default := default_of(node)).startswith("`"):
        node["description"] += f" Default: {default.strip('`')}."


def _name_alternatives(key: str, node: _Node) -> None:
    """Joins a type and null, and names other alternatives, of which editors show the titles one after the other."""
    match node.get("anyOf"):
        case [{"type": str(kind)} as only, {"type": "null"}]:
            del node["anyOf"]
            node |= only | {"type": [kind, "null"]}
            if "enum" in node:
                node["enum"] = [*node["enum"], None]
        case list(alternatives):
            for each in alternatives:
                if "$ref" not in each and "oneOf" not in each:
                    each["title"] = f"{key}: {each.get('const', each.get('type'))}"


def _selected_by_tags(node: Any, definitions: _Definitions) -> Any:
    """Returns a copy of a schema in which the member of each union follows from its tag alone."""
    if isinstance(node, list):
        return [_selected_by_tags(child, definitions) for child in node]
    if not isinstance(node, dict):
        return node
    if "discriminator" not in node:
        return {key: _selected_by_tags(child, definitions) for key, child in node.items()}
    tag = node["discriminator"]["propertyName"]
    members = {definitions[_name_of(member)]["properties"][tag]["const"]: member for member in node["oneOf"]}
    values = {
        "title": tag,
        "description": "Selects the other keys.",
        "enum": list(members),
        "enumDescriptions": [definitions[_name_of(member)]["description"] for member in members.values()],
    }
    rest = {key: child for key, child in node.items() if key not in ("oneOf", "discriminator")}
    return (
        {"title": f"mapping with {tag}"}
        | rest
        | {
            "type": "object",
            "required": [tag],
            "properties": {tag: values},
            "allOf": [{"if": _has(tag, value), "then": member} for value, member in members.items()],
        }
    )


def _has(tag: str, value: str) -> _Node:
    # While it completes, the language server takes the start of a constant for the constant, `id` for `ids`; it does
    # not so with a pattern.
    return {"type": "object", "required": [tag], "properties": {tag: {"const": value, "pattern": f"^{value}$"}}}


def _name_of(member: _Node) -> str:
    return str(member["$ref"]).rsplit("/", 1)[-1]

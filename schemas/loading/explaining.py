"""Turns pydantic's errors into problems, with paths in the document and allowed values."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sangam.schemas.problems import Loc, Problem, listed, nearest
from sangam.schemas.spec.kubernetes_names import WORDS

_TYPES = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a string; put quotes around it if it looks like something else",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}
_WITHHELD = {
    ("runner", "dask"): "Dask is not offered: its runner merges the outputs of a branching step without an error",
    ("runner", "direct"): "DirectRunner is not offered: it downloads an unpinned engine; use local",
}
"""Values that Sangam leaves out on purpose, with the reasons."""
_NO_KIND = "none is known: name the module that has it in `parts`"
_NAME = "lower case letters, digits and _, starting with a letter, at most 63"


def explain(errors: Iterable[Any], schema: Mapping[str, Any]) -> list[Problem]:
    """Returns pydantic's errors as problems, one per path.

    Args:
        errors: the result of `ValidationError.errors()`.
        schema: the JSON Schema of the model that refused the document.
    """
    by_loc: dict[Loc, Problem] = {}
    for error in errors:
        if error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]:
            continue  # Pydantic does not count items that it refused; each has its own error.
        problem = _explain(error, schema)
        known = by_loc.setdefault(problem.loc, problem)
        # A union without a tag reports each of its members at the same path.
        if problem.allowed not in known.allowed:
            by_loc[problem.loc] = Problem(known.loc, known.what, f"{known.allowed}, or {problem.allowed}")
    # For a list that is too short, pydantic reports both the list and the missing item.
    return [
        problem
        for loc, problem in by_loc.items()
        if not (loc and isinstance(loc[-1], int) and loc[:-1] in by_loc and problem.what == "is missing")
    ]


def _explain(error: Any, schema: Mapping[str, Any]) -> Problem:
    loc, node = _walk(error["loc"], schema)
    kind, got, context = error["type"], _shown(error["input"]), error.get("ctx", {})
    match kind:
        case "extra_forbidden":
            allowed = list(_walk(error["loc"][:-1], schema)[1].get("properties", {}))
            return Problem(
                loc, f"unknown key (got {got})", f"{nearest(str(loc[-1]), allowed)}allowed: {listed(allowed)}"
            )
        case "missing":
            return Problem(loc, "is missing", "it is required")
        case "union_tag_not_found":
            key = context["discriminator"].strip("'")
            tags = node.get("discriminator", {}).get("mapping", {})
            return Problem((*loc, key), "is missing", f"one of: {', '.join(repr(tag) for tag in tags)}")
        case "dict_type" if tags := node.get("discriminator", {}).get("mapping"):
            key = node["discriminator"]["propertyName"]
            return Problem(loc, f"not allowed (got {got})", _as_mapping(key, tags, error["input"]))
        case "union_tag_invalid":
            key = context["discriminator"].strip("'")
            known = context["expected_tags"]
            allowed_tags = f"{_nearest_of(known, context['tag'])}one of: {known}" if known else _NO_KIND
            if reason := _WITHHELD.get((key, str(context["tag"]).lower().removesuffix("runner"))):
                allowed_tags = f"{reason}; {allowed_tags}"
            return Problem((*loc, key), f"unknown {key} (got {_shown(context['tag'])})", allowed_tags)
        case "literal_error":
            known = context["expected"].replace(" or ", ", ")
            return Problem(loc, f"not allowed (got {got})", f"{_nearest_of(known, error['input'])}one of: {known}")
        case "value_error":
            return Problem(loc, f"not allowed (got {got})", str(context["error"]))
        case "string_pattern_mismatch" if context["pattern"] in WORDS:
            return Problem(loc, f"not allowed (got {got})", WORDS[context["pattern"]])
        case "string_pattern_mismatch":
            return Problem(loc, f"not a name (got {got})", _NAME)
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return Problem(loc, f"not allowed (got {got})", _bounds(node) or _lower_first(error["msg"]))
        case "too_short" | "too_long":
            return Problem(loc, f"has {_counted(context['actual_length'])} (got {got})", _length(node))
        case _:
            return Problem(loc, f"not allowed (got {got})", _TYPES.get(kind, _lower_first(error["msg"])))


def _walk(loc: Loc, schema: Mapping[str, Any]) -> tuple[Loc, Mapping[str, Any]]:
    """Follows pydantic's location through the JSON Schema.

    The location also has the members of unions, which the document does not have; these parts are skipped.

    Returns:
        The location in the document, and its JSON Schema ({} if there is none).
    """
    kept: list[str | int] = []
    node: Mapping[str, Any] = _resolved(schema, schema)
    for part in loc:
        tags = node.get("discriminator", {}).get("mapping") or _members(node)
        if part in tags:
            node = _resolved({"$ref": tags[str(part)]}, schema)
            continue
        if part == "[key]" or "anyOf" in node:
            continue
        kept.append(part)
        node = _resolved(_child(node, part), schema)
    return tuple(kept), node


def _members(node: Mapping[str, Any]) -> dict[str, str]:
    """Returns the models of a union that no key tells apart, whose names are its tags."""
    return {option["$ref"].rsplit("/", 1)[1]: option["$ref"] for option in node.get("oneOf", ()) if "$ref" in option}


def _child(node: Mapping[str, Any], part: str | int) -> Mapping[str, Any]:
    child: Any
    if isinstance(part, int):
        prefix = node.get("prefixItems", ())
        child = prefix[part] if part < len(prefix) else node.get("items")
    elif part in node.get("properties", {}):
        child = node["properties"][part]
    else:
        child = next(iter(node.get("patternProperties", {}).values()), None)
    return child if isinstance(child, Mapping) else {}


def _resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    options = [option for option in node.get("anyOf", []) if option.get("type") != "null"]
    # A union's places begin with the kind; a word beside it has none.
    options = [option for option in options if "discriminator" in option] or options
    # A constant beside a mapping is short for a mapping.
    if mappings := [option for option in options if "$ref" in option]:
        options = [option for option in options if option in mappings or "const" not in option]
    if len(options) == 1:
        node = options[0]
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node


def _nearest_of(known: str, value: Any) -> str:
    """Returns the hint at one of quoted words."""
    return nearest(str(value), re.findall("'([^']*)'", known))


def _as_mapping(key: str, tags: Iterable[str], value: Any) -> str:
    """Returns the remedy for a value that should be a mapping of one of several kinds."""
    if isinstance(value, str) and value in tags:
        return f"write {{{key}: {value}}}"
    return f"a mapping with {key}, one of: {', '.join(repr(tag) for tag in tags)}"


def _bounds(node: Mapping[str, Any]) -> str:
    return ", ".join(f"{word} {node[bound]}" for bound, word in _BOUNDS.items() if bound in node)


def _length(node: Mapping[str, Any]) -> str:
    low = node.get("minItems", node.get("minProperties"))
    high = node.get("maxItems", node.get("maxProperties"))
    if low == high and low is not None:
        return f"exactly {_counted(low)}"
    return f"at least {_counted(low)}" if low is not None else f"at most {_counted(high or 0)}"


def _counted(number: int) -> str:
    return f"{number} item" if number == 1 else f"{number} items"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        text = f"a mapping of {listed([str(key) for key in value])}"
    else:
        text = json.dumps(value, default=str) if not isinstance(value, str) else f"'{value}'"
    # A problem is one line, also for a value of several lines.
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]

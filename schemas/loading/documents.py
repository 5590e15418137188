"""A spec as plain data: checked as a spec file is, and with values put at dotted paths."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pydantic

from schemas.checks import find_problems
from schemas.loading.explaining import explain
from schemas.problems import Problem
from schemas.spec import Spec

Document = dict[str, Any]


def check_document(document: Document) -> Spec | list[Problem]:
    """Returns the spec that a document says, or everything that is wrong with it."""
    try:
        # Through JSON, so that a YAML list is a JSON array and strict types mean the same as in the JSON Schema.
        spec = Spec.model_validate_json(json.dumps(document))
    except pydantic.ValidationError as error:
        return explain(error.errors(include_url=False), Spec.model_json_schema())
    return find_problems(spec) or spec


def whole(spec: Spec) -> Document:
    """Returns a spec with everything that it leaves out written out."""
    document: Document = spec.model_dump(mode="json")
    return document


def parent_of(document: Document, defaults: Document, path: str) -> Any:
    """Returns the mapping that holds a path's last key; parts on the way that the document leaves out are written out.

    Args:
        document: changed only where a part is left out.
        defaults: the same spec, whole.
        path: keys joined by dots.

    Raises:
        KeyError: with the first part that is no mapping, neither written nor by default.
    """
    keys = path.split(".")
    node: Any = document
    default: Any = defaults
    for depth, key in enumerate(keys[:-1], 1):
        default = default.get(key) if isinstance(default, Mapping) else None
        if not isinstance(node.get(key), Mapping):
            if not isinstance(default, Mapping):
                raise KeyError(".".join(keys[:depth]))
            node[key] = copy.deepcopy(default)
        node = node[key]
    return node


def with_values(document: Document, defaults: Document, values: Mapping[str, Any]) -> Document:
    """Returns a copy of a document with values put at dotted paths; see `parent_of`."""
    changed = copy.deepcopy(document)
    for path, value in values.items():
        parent_of(changed, defaults, path)[path.rsplit(".", 1)[-1]] = copy.deepcopy(value)
    return changed


def value_at(defaults: Document, path: str) -> Any:
    """Returns what a whole spec has at a dotted path; None where there is nothing."""
    node: Any = defaults
    for key in path.split("."):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node

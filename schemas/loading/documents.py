"""A spec as plain data: to check it, and to change values at dotted paths."""

import copy
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from sangam.schemas.checks import find_problems
from sangam.schemas.errors import UserError
from sangam.schemas.loading.explaining import explain
from sangam.schemas.loading.further import further_problems
from sangam.schemas.parts.importing import import_part
from sangam.schemas.parts.kinds import Part, listing, outside_kinds
from sangam.schemas.problems import Problem
from sangam.schemas.spec import Spec

Document = dict[str, Any]


def check_document(document: Document) -> Spec | list[Problem]:
    """Returns the spec of a document, or all its problems."""
    if document.get("tune") == "auto":
        document = {**document, "tune": {"auto": True}}
    if problems := list(_import(document.get("parts"))):
        return problems
    try:
        # JSON makes arrays of YAML lists, and strict types mean the same as in the JSON Schema.
        spec = Spec.model_validate_json(json.dumps(document))
    except pydantic.ValidationError as error:
        wrong = explain(error.errors(include_url=False), _schema(*outside_kinds()))
        return [*wrong, *further_problems(document, wrong)]
    return find_problems(spec) or spec


def _import(parts: Any) -> Iterator[Problem]:
    """Imports the modules with parts, which decide what else the document may say."""
    for position, name in enumerate(parts) if isinstance(parts, list) else ():
        if isinstance(name, str):
            try:
                import_part(name)
            except UserError as error:
                what, _, remedy = str(error).rpartition("; ")
                yield Problem(("parts", position), what.removeprefix("parts: "), remedy)


@functools.lru_cache(maxsize=1)  # Made in a fifth of a second, and asked for by every faulty document.
def _schema(*outside: type[Part]) -> dict[str, Any]:
    with listing(part.__module__ for part in outside):
        return Spec.model_json_schema()


def whole(spec: Spec) -> Document:
    """Returns a spec with all its defaults written out."""
    document: Document = spec.model_dump(mode="json")
    return document


def parent_of(document: Document, defaults: Document, path: str) -> Any:
    """Returns the mapping that holds a path's last key; defaults are written out along the path.

    Args:
        document: gets the missing parts of the path.
        defaults: the same spec with all defaults.
        path: keys joined by dots.

    Raises:
        KeyError: the path leads through a value that is not a mapping, even by default; with the path to it.
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
    """Returns a copy of a document with values set at dotted paths; see `parent_of`."""
    changed = copy.deepcopy(document)
    for path, value in values.items():
        parent_of(changed, defaults, path)[path.rsplit(".", 1)[-1]] = copy.deepcopy(value)
    return changed


def value_at(defaults: Document, path: str) -> Any:
    """Returns the value of a spec with defaults at a dotted path, or None."""
    node: Any = defaults
    for key in path.split("."):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node

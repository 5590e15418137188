"""From a YAML file to a spec, or to every mistake in it with its line, the value got and what is allowed."""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from schemas.checks import find_problems
from schemas.problems import Loc, Problem, SpecError, listed
from schemas.spec import Spec

MAX_FILE_BYTES = 4 * 2**20


def load_spec(path: Path) -> Spec:
    """Reads and checks a spec.

    Raises:
        SpecError: with all problems found; its text has one line for each.
    """
    document = _parse(path)
    try:
        # Through JSON, so that a YAML list is a JSON array and strict types mean the same as in the JSON Schema.
        spec = Spec.model_validate_json(json.dumps(document))
    except TypeError as error:
        raise SpecError(path, [Problem((), f"holds a value that JSON cannot ({error})", "quote dates")]) from None
    except pydantic.ValidationError as error:
        problems = [_explain(found, document) for found in error.errors(include_url=False)]
        raise SpecError(path, [_with_line(problem, document) for problem in problems]) from None
    problems = find_problems(spec)
    if problems:
        raise SpecError(path, [_with_line(problem, document) for problem in problems])
    return spec


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a spec file, for editors."""
    schema = Spec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sangam ranker spec"} | schema


def _parse(path: Path) -> CommentedMap:
    def fail(what: str, allowed: str, line: int | None = None) -> SpecError:
        return SpecError(path, [Problem((), what, allowed, line)])

    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise fail(f"is {path.stat().st_size} bytes long", f"at most {MAX_FILE_BYTES}")
        document = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise fail("no such file", "give the path of a spec, for example pipelines/specs/short_video.yaml") from None
    except IsADirectoryError:
        raise fail("is a folder", "give the path of a YAML file") from None
    except PermissionError:
        raise fail("may not be read", "check its permissions") from None
    except UnicodeDecodeError as error:
        raise fail(f"is not UTF-8 text ({error.reason} at byte {error.start})", "save it as UTF-8") from None
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        what = str(error.problem).split(" with value")[0]
        raise fail(what, "write every key once", line) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise fail(f"is not YAML: {error.problem or error.context}", "mend the syntax", line) from None
    except YAMLError as error:
        raise fail(f"is not YAML: {error}", "mend the syntax") from None
    except RecursionError:
        raise fail("is nested too deeply", "a spec has few levels") from None
    if not isinstance(document, CommentedMap):
        raise fail(f"is no mapping (got {type(document).__name__})", "a spec starts with `name:`")
    return document


def _with_line(problem: Problem, document: CommentedMap) -> Problem:
    return Problem(problem.loc, problem.what, problem.allowed, _line(document, problem.loc))


def _line(document: CommentedMap, loc: Loc) -> int | None:
    """Returns the line of the innermost part of `loc` that is in the document."""
    node: Any = document
    line: int | None = None
    for part in loc:
        try:
            if isinstance(node, CommentedMap):
                line = node.lc.key(part)[0] + 1
            elif isinstance(node, CommentedSeq):
                line = node.lc.item(part)[0] + 1
            node = node[part]
        except (KeyError, IndexError, TypeError):
            break
    return line


def _explain(error: Any, document: CommentedMap) -> Problem:
    """Turns an error of pydantic into a problem in the document's own terms."""
    loc = _in_document(error["loc"], document)
    kind, got, context = error["type"], _shown(error["input"]), error.get("ctx", {})
    match kind:
        case "extra_forbidden":
            allowed = _keys_at(error["loc"][:-1])
            close = difflib.get_close_matches(str(loc[-1]), allowed, n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            return Problem(loc, f"unknown key (got {got})", f"{hint}allowed: {listed(allowed)}")
        case "missing":
            return Problem(loc, "is missing", "it must be declared")
        case "union_tag_not_found":
            key = context["discriminator"].strip("'")
            return Problem((*loc, key), "is missing", f"one of: {', '.join(_tags(error['loc']))}")
        case "union_tag_invalid":
            key = context["discriminator"].strip("'")
            return Problem((*loc, key), f"unknown {key} (got '{context['tag']}')", f"one of: {context['expected_tags']}")
        case "literal_error":
            return Problem(loc, f"not allowed (got {got})", f"one of: {context['expected']}")
        case "value_error":
            return Problem(loc, f"not allowed (got {got})", str(context["error"]))
        case "string_pattern_mismatch":
            allowed_name = "lower case letters, digits and _, starting with a letter"
            return Problem(loc, f"not a name (got {got})", allowed_name)
        case _:
            return Problem(loc, f"not allowed (got {got})", _lower_first(error["msg"]))


def _in_document(loc: Loc, document: CommentedMap) -> Loc:
    """Drops the parts of pydantic's location that name a member of a union rather than a key of the document."""
    kept: list[str | int] = []
    node: Any = document
    for position, part in enumerate(loc):
        present = (isinstance(node, Mapping) and part in node) or (
            isinstance(node, list) and isinstance(part, int) and part < len(node)
        )
        if present:
            node = node[part]
            kept.append(part)
        elif part == "[key]" or (isinstance(part, str) and position < len(loc) - 1):
            continue
        elif not isinstance(node, Mapping) or part not in _union_tags():
            kept.append(part)
    return tuple(kept)


def _union_tags() -> set[str]:
    tags: set[str] = set()
    pending: list[Any] = [Spec.model_json_schema()]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            tags.update(node.get("discriminator", {}).get("mapping", {}))
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return tags


def _schema_at(loc: Loc) -> dict[str, Any]:
    """Returns the JSON Schema of the place that pydantic's location, union members included, leads to."""
    root = Spec.model_json_schema()
    node = root
    for part in loc:
        node = _resolved(node, root)
        mapping = node.get("discriminator", {}).get("mapping", {})
        if part in node.get("properties", {}):
            node = node["properties"][part]
        elif part in mapping:
            node = {"$ref": mapping[part]}
        elif isinstance(part, int):
            node = node.get("items", {})
        else:
            node = node.get("additionalProperties") or {}
    return _resolved(node, root)


def _resolved(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    options = [option for option in node.get("anyOf", []) if option.get("type") != "null"]
    if len(options) == 1:
        node = options[0]
    while "$ref" in node:
        node = root["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node


def _keys_at(loc: Loc) -> list[str]:
    return list(_schema_at(loc).get("properties", {}))


def _tags(loc: Loc) -> list[str]:
    return sorted(_schema_at(loc).get("discriminator", {}).get("mapping", {}))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"a mapping of {listed([str(key) for key in value])}"
    text = json.dumps(value, default=str) if not isinstance(value, str) else f"'{value}'"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]

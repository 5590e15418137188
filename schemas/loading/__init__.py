"""Reads a spec from YAML, or reports every mistake with its line, its value and the allowed values."""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from sangam.schemas.loading.documents import Document, check_document
from sangam.schemas.loading.tuning_ranges import tuning_problems
from sangam.schemas.parts.importing import import_parts, look_beside, module_of
from sangam.schemas.parts.kinds import listing
from sangam.schemas.problems import Loc, Problem, SpecError
from sangam.schemas.spec import Spec

MAX_FILE_BYTES = 4 * 2**20
MAX_VALUES = 100_000
MAX_DEPTH = 30


def load_spec(path: Path) -> Spec:
    """Reads and checks a spec.

    Raises:
        SpecError: with all problems, one per line of its text.
    """
    return parse_spec(path).spec


class Parsed(NamedTuple):
    """A spec that was read.

    Attributes:
        document: the file as plain data.
        written: the file with its comments and its order of keys.
    """

    spec: Spec
    document: Document
    written: CommentedMap


def parse_spec(path: Path) -> Parsed:
    """Reads and checks a spec, and keeps the file's data.

    Raises:
        SpecError: see `load_spec`.
    """
    return _checked(path, _parse(path))


def parse_text(text: str, name: str) -> Parsed:
    """Does the same for YAML text; `name` takes the place of the path in errors."""
    return _checked(Path(name), _parse(Path(name), text))


def parse_document(document: Mapping[str, Any], name: str) -> Parsed:
    """Does the same for plain data; numbers of NumPy are numbers, and tuples are lists."""
    return _checked(Path(name), CommentedMap(document))


def _checked(path: Path, written: CommentedMap) -> Parsed:
    document = _plain(path, written)
    if document.get("parts"):
        look_beside(path)
    spec = check_document(document)
    problems = spec if isinstance(spec, list) else list(tuning_problems(spec, document))
    if isinstance(spec, list) or problems:
        raise SpecError(path, [_with_line(problem, written) for problem in problems])
    return Parsed(spec, document, written)


def json_schema(parts: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the JSON Schema of a spec file; see `editors.editor_schema` for the form that is published.

    Args:
        parts: the `parts` of the spec, which have kinds besides the product's.
    """
    with listing(map(module_of, import_parts(parts))):
        schema = Spec.model_json_schema() | {"title": "Sangam ranker spec"}
    for node in _mappings(schema):
        # Pydantic refuses keys that are not names, but leaves that out of the JSON Schema.
        if "patternProperties" in node:
            node["additionalProperties"] = False
        if isinstance(text := node.get("description"), str):
            node["description"] = " ".join(text.split())
    for model in schema["$defs"].values():
        for key in model.get("properties", {}).values():
            # The only value of a key such as `kind` stands for its model.
            if "const" in key:
                key.setdefault("description", model["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _mappings(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _mappings(child)


def _parse(path: Path, text: str | None = None) -> CommentedMap:
    try:
        document = YAML(typ="rt").load(_read(path) if text is None else _bounded(path, text))
    except UnicodeDecodeError as error:
        raise _fail(path, f"is not UTF-8 text ({error.reason} at byte {error.start})", "save it as UTF-8") from None
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        what = str(error.problem).split(" with value")[0]
        raise _fail(path, what, "write every key once", line) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise _fail(path, f"is not YAML: {_one_line(error.problem or error.context)}", "fix the syntax", line) from None
    except YAMLError as error:
        raise _fail(path, f"is not YAML: {_one_line(error)}", "fix the syntax") from None
    except RecursionError:
        raise _fail(path, "is nested too deeply", f"at most {MAX_DEPTH} levels") from None
    except (ValueError, NotImplementedError, AttributeError, TypeError, LookupError, AssertionError) as error:
        # ruamel.yaml raises these for some malformed numbers, dates, directives and tags.
        raise _fail(path, f"is not YAML: {_one_line(error)}", "fix the syntax") from None
    if document is None:
        raise _fail(path, "is empty", "a spec starts with `name:`")
    if not isinstance(document, CommentedMap):
        raise _fail(path, f"is not a mapping (got {_kind_of(document)})", "a spec starts with `name:`")
    return document


def _bounded(path: Path, text: str) -> str:
    if len(text) > MAX_FILE_BYTES:
        raise _fail(path, f"is {len(text)} characters long", f"at most {MAX_FILE_BYTES}")
    return text


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise _fail(path, "is a folder", "give the path of a YAML file")
        if not path.is_file():
            raise _fail(path, "is not a file", "give the path of a YAML file")
        if size > MAX_FILE_BYTES:
            raise _fail(path, f"is {size} bytes long", f"at most {MAX_FILE_BYTES}")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        example = "give the path of a spec, for example pipelines/specs/short_video.yaml"
        raise _fail(path, "no such file", example) from None
    except PermissionError:
        raise _fail(path, "is not readable", "check its permissions") from None
    except OSError as error:
        raise _fail(path, f"cannot be read ({error.strerror})", "give the path of a YAML file") from None


def _plain(path: Path, document: CommentedMap) -> Any:
    """Returns the document with the types of JSON alone: dicts, lists, strings, numbers, booleans and null."""
    num_values = 0

    def convert(node: Any, loc: Loc) -> Any:
        nonlocal num_values
        num_values += 1
        # An alias counts each time it is used, so that a few lines cannot unfold into gigabytes.
        if num_values > MAX_VALUES:
            raise _fail(path, f"has too many values (more than {MAX_VALUES}, aliases unfolded)", "a spec is small")
        if len(loc) > MAX_DEPTH:
            raise _fail(path, "is nested too deeply", f"at most {MAX_DEPTH} levels")
        tag = getattr(getattr(node, "tag", None), "value", None)
        if tag is not None:
            raise refused(loc, f"has a tag (got '{_one_line(tag)}')", "a spec holds plain YAML, without tags")
        if isinstance(node, Mapping):
            for key in node:
                if not isinstance(key, str):
                    raise refused(loc, f"has a key that is not a string (got {_one_line(key)})", "put quotes around it")
            return {str(key): convert(value, (*loc, str(key))) for key, value in node.items()}
        if isinstance(node, list | tuple):
            return [convert(value, (*loc, index)) for index, value in enumerate(node)]
        if node is None or isinstance(node, bool):
            return node
        # ruamel.yaml has subclasses of these, which keep the spelling; NumPy has its own.
        if isinstance(node, Integral):
            return int(node)
        if isinstance(node, Real):
            return float(node)
        if isinstance(node, str):
            return str(node)
        raise refused(loc, f"is a {_kind_of(node)} (got {_one_line(node)})", "put quotes around it to make it a string")

    def refused(loc: Loc, what: str, allowed: str) -> SpecError:
        return SpecError(path, [_with_line(Problem(loc, what, allowed), document)])

    return convert(document, ())


def _fail(path: Path, what: str, allowed: str, line: int | None = None) -> SpecError:
    return SpecError(path, [Problem((), what, allowed, line)])


def _one_line(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."


def _kind_of(value: Any) -> str:
    kinds = {CommentedSeq: "list", bool: "truth value", int: "number", float: "number", str: "text"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), type(value).__name__.lower())


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

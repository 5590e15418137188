"""docs/spec.md, the schema of editors and the hints of `sangam validate` name the same kinds and keys."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sangam.schemas.loading.documents import check_document
from sangam.schemas.loading.editors import editor_schema
from sangam.schemas.problems import Problem
from tests.schemas.sample_specs import changed

Keys = dict[str, frozenset[str]]
"""The keys of each kind; of a mapping without kinds, those of the kind ''."""


def _sections(page: str) -> dict[str, Keys]:
    """Returns the kinds and keys of each table of docs/spec.md, by its path."""
    found: dict[str, Keys] = {}
    for head, text in re.findall(r"^##+ (.+)\n((?:(?!##).*\n?)*)", page, re.MULTILINE):
        kinds = re.findall(r"^- `(?:\w+: )?(\w+)`:", text, re.MULTILINE)
        keys: dict[str, set[str]] = {kind: set() for kind in kinds or [""]}
        for key, of in re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE):
            named = set(re.findall(r"`(\w+)`", of))
            owners = kinds if of == "all" else set(kinds) - named if of.startswith("all but") else named
            for kind in owners if kinds else [""]:
                keys[kind].add(key)
        if like := re.search(r"The keys of \[`(.+?)`\]\(\S+\)(?: without (.*)\.|, and:)$", text, re.MULTILINE):
            gone = set(re.findall(r"`(\w+)`", like[2] or ""))
            keys = {kind: set(more - gone) | keys.get(kind, set()) for kind, more in found[like[1]].items()}
        found[head.strip("`")] = {kind: frozenset(each) for kind, each in keys.items()}
    return found


def _groups(node: Any, models: dict[str, Any]) -> Iterator[Keys]:
    """Yields the kinds and keys of each mapping of a schema."""
    match node:
        case {"allOf": cases, "required": [tag], "properties": {**tags}}:
            members = zip(tags[tag]["enum"], (_keys(each["then"], models) for each in cases), strict=True)
            yield {kind: keys - {tag} for kind, keys in members}
        case {"oneOf": [*members]}:  # Told apart by their keys.
            yield dict(_by_first_key(models[_name(member)]["properties"]) for member in members)
        case {"$ref": _} if keys := _keys(node, models):
            yield {"": keys}
        case dict():
            for child in node.values():
                yield from _groups(child, models)
        case list():
            for child in node:
                yield from _groups(child, models)


def _by_first_key(properties: dict[str, Any]) -> tuple[str, frozenset[str]]:
    for key, node in properties.items():
        if "const" in node:
            return node["const"], frozenset(properties) - {key}
    return next(iter(properties)), frozenset(properties)


def _keys(node: dict[str, str], models: dict[str, Any]) -> frozenset[str]:
    return frozenset(models[_name(node)].get("properties", ()))


def _name(node: dict[str, str]) -> str:
    return node["$ref"].rsplit("/", 1)[-1]


def test_the_page_has_every_key_of_every_kind_of_the_schema_and_no_other(repository: Path) -> None:
    page = (repository / "docs" / "spec.md").read_text(encoding="utf-8")
    told = _sections(page[page.index("## Sections") :])
    assert told["tasks.<name>.loss"]["focal"] == {"gamma", "alpha", "label_smoothing"}
    schema = editor_schema("1.2.3")
    known = [{"": frozenset(schema["properties"])}, *_groups(schema, schema["$defs"])]
    assert {frozenset(keys.items()) for keys in told.values()} == {frozenset(keys.items()) for keys in known}


def test_a_hint_names_the_keys_of_the_schema() -> None:
    models = editor_schema("1.2.3")["$defs"]
    for place, model in {"features.user": "IdFeature", "tasks.like": "BinaryTask", "training": "Training"}.items():
        (problem,) = _problems(changed({f"{place}.x": 1}))
        assert set(re.findall(r"\w+", problem.allowed.split("allowed: ")[1])) == set(models[model]["properties"])


def _problems(document: dict[str, Any]) -> list[Problem]:
    found = check_document(document)
    assert isinstance(found, list)
    return found

"""The JSON Schema for editors accepts what the loader accepts and refuses what has the wrong shape."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from sangam.pipelines.provenance import VERSION
from sangam.schemas.loading import json_schema
from sangam.schemas.loading.editors import editor_schema, editor_schema_text
from tests.golden_files import check_golden
from tests.schemas.loading.test_mutated_documents import DOCUMENT
from tests.schemas.sample_specs import REMOVED, changed

SPECS = ("short_video", "online_retail", "census_income")


@functools.cache
def _schema() -> dict[str, Any]:
    return editor_schema("1.2.3")


@functools.cache
def _validator() -> Any:
    jsonschema.Draft202012Validator.check_schema(_schema())
    return jsonschema.Draft202012Validator(_schema())


@pytest.mark.parametrize("name", SPECS)
def test_specs_of_the_repository_are_valid(repository: Path, name: str) -> None:
    document = YAML(typ="safe").load(repository / "pipelines" / "specs" / f"{name}.yaml")
    assert list(_validator().iter_errors(document)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"nam": "x"},
        {"name": "Small"},
        {"model": REMOVED},
        {"tables.Users": {"dim": 3}},
        {"features.user.kind": "idd"},
        {"features.user.tabel": "users"},
        {"features.age.clip": [1]},
        {"features.age.clip": [1, 2, 3]},
        {"gates": []},
        {"gates.0.max_drop": -1},
        {"export": {"rows": "float8"}},
        {"training.batch_size_per_rank": "16"},
        {"push": {"kind": "none", "path": "x"}},
        {"tables.users.admission": {"kind": "count"}},
        {"tables.users.admission": {"kind": "random", "probability": 1}},
        {"tables.users.capacity": {"evict": "least_recent"}},
        {"tables.users.optimizer": {"kind": "adamw", "learning_rate": 0.1}},
        {"training.checkpoint": {"every": 3}},
    ],
    ids=str,
)
def test_documents_of_the_wrong_shape_are_refused(changes: dict[str, Any]) -> None:
    assert list(_validator().iter_errors(changed({}))) == []
    assert list(_validator().iter_errors(changed(changes)))


def test_it_accepts_what_the_schema_of_the_models_accepts() -> None:
    plain = jsonschema.Draft202012Validator(json_schema())
    found = [
        (plain.is_valid(each), _validator().is_valid(each))
        for each in itertools.islice(_variants(DOCUMENT), 0, None, 15)
    ]
    assert all(first == second for first, second in found)
    assert {first for first, _ in found} == {True, False}


def _variants(node: Any) -> Iterator[Any]:
    """Yields a document with one value replaced or taken away, or one key added, at each of its places."""
    yield from (None, "id", {"kind": "mmoe"})
    match node:
        case dict():
            yield node | {"kind": "id"}
            for key, child in node.items():
                yield {name: each for name, each in node.items() if name != key}
                yield from (node | {key: variant} for variant in _variants(child))
        case list():
            yield [*node, {}]
            for position, child in enumerate(node):
                yield from ([*node[:position], variant, *node[position + 1 :]] for variant in _variants(child))


def test_every_key_of_every_kind_has_a_title_and_a_description() -> None:
    keys = [(key, node) for each in _nodes(_schema()) for key, node in each.get("properties", {}).items()]
    assert ("kind", "Selects the other keys.") in [(key, node["description"]) for key, node in keys]
    assert [
        key for key, node in keys if not node.get("description") or (node.get("title") != key and "anyOf" not in node)
    ] == []


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yields the mappings of a schema, without the conditions that select a kind."""
    if isinstance(node, dict):
        yield node
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key != "if":
            yield from _nodes(child)


def test_a_key_tells_its_default_and_none_is_no_default() -> None:
    mmoe = _schema()["$defs"]["Mmoe"]
    assert mmoe["title"] == "kind: mmoe"
    assert mmoe["properties"]["num_experts"] == {
        "title": "num_experts",
        "type": "integer",
        "exclusiveMinimum": 0,
        "default": 4,
        "description": "Number of experts. Default: 4.",
    }
    assert "default" not in mmoe["properties"]["top_k"]
    assert mmoe["properties"]["top_k"]["type"] == ["integer", "null"]


def test_the_kind_alone_selects_the_keys() -> None:
    loss = _schema()["$defs"]["BinaryTask"]["properties"]["loss"]
    assert loss["default"] == {"kind": "cross_entropy", "label_smoothing": 0.0}
    assert loss["properties"]["kind"]["enum"] == ["cross_entropy", "focal"]
    assert loss["properties"]["kind"]["enumDescriptions"][0] == "Sigmoid cross-entropy."
    (wrong,) = _validator().iter_errors(changed({"tasks.like.loss": {"kind": "focall", "gama": 1}}))
    assert list(wrong.absolute_path) == ["tasks", "like", "loss", "kind"]


def test_it_names_its_dialect_and_itself_first() -> None:
    assert list(_schema().items())[:2] == [
        ("$schema", "https://json-schema.org/draft/2020-12/schema"),
        ("$id", "urn:sangam:spec:1.2.3"),
    ]


def test_published_schema_is_the_golden_text_of_the_derived_one() -> None:
    check_golden("../../docs/spec.schema.json", editor_schema_text(VERSION))

"""The JSON Schema for editors accepts what the loader accepts and refuses what has the wrong shape."""

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from sangam.schemas.loading import json_schema
from tests.golden_files import check_golden
from tests.schemas.sample_specs import REMOVED, changed

SPECS = ("short_video", "online_retail", "census_income")


@functools.cache
def _validator() -> Any:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


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


def test_every_key_has_a_description() -> None:
    schema = json_schema()
    models = {"": schema} | schema["$defs"]
    assert not [
        f"{name}.{key}"
        for name, model in models.items()
        for key, node in model.get("properties", {}).items()
        if not node.get("description")
    ]


def test_published_schema_is_the_golden_text_of_the_derived_one() -> None:
    check_golden("../../docs/spec.schema.json", json.dumps(json_schema(), indent=2) + "\n")

"""What docs/features.md shows is valid, and names every kind of feature, encoder and encoding."""

import re
import typing
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from sangam.schemas.parts.roles import Encoder, Feature
from sangam.schemas.spec.encodings import Encoding
from tests.registered_kinds import ours
from tests.schemas.sample_specs import loaded


def _kinds(union: Any) -> set[str]:
    return {member.model_fields["kind"].annotation.__args__[0] for member in typing.get_args(typing.get_args(union)[0])}


def test_the_example_is_valid_and_has_every_kind(repository: Path, tmp_path: Path) -> None:
    text = (repository / "docs" / "features.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    features = YAML(typ="safe").load(blocks[0])["features"]
    tables = {feature["table"] for feature in features.values() if "table" in feature}
    changes = {"features": features, "tables": {name: {"dim": 8} for name in tables}, "evaluation": {}}
    assert set(loaded(tmp_path, changes).features) == set(features)
    assert {feature["kind"] for feature in features.values()} == set(ours(Feature))
    assert all(f"| `{kind}` |" in text for kind in ours(Feature))
    assert all(f"| `{{kind: {kind}" in text for kind in ours(Encoder).keys() | _kinds(Encoding))

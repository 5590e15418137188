"""What docs/modes.md shows is valid, and names every mode and algorithm."""

import re
from pathlib import Path
from typing import get_args

import pytest
from ruamel.yaml import YAML

from sangam.schemas.loading import load_spec
from sangam.schemas.spec import sync
from tests.schemas.sample_specs import changed, write


@pytest.fixture(scope="module")
def doc(repository: Path) -> str:
    return (repository / "docs" / "modes.md").read_text()


def test_its_piece_of_a_spec_is_valid(doc: str, tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", doc, re.DOTALL)
    part = YAML(typ="safe").load(block)
    document = changed({"training.sync": part["training"]["sync"], "cluster": part["cluster"]})
    assert load_spec(write(tmp_path / "spec.yaml", document))


def test_it_names_every_mode_and_algorithm(doc: str) -> None:
    kinds = [get_args(member.model_fields["kind"].annotation)[0] for member in get_args(get_args(sync.Sync)[0])]
    for word in [*kinds, *get_args(sync.Shadow.model_fields["algorithm"].annotation)]:
        assert f"`{word}`" in doc, word

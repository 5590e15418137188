"""What docs/online.md shows is valid."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sangam.schemas.loading import load_spec
from sangam.schemas.spec.online import Joining, Online
from tests.schemas.sample_specs import changed, write


@pytest.fixture(scope="module")
def doc(repository: Path) -> str:
    return (repository / "docs" / "online.md").read_text()


def test_its_piece_of_a_spec_is_valid(doc: str, tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", doc, re.DOTALL)
    part = YAML(typ="safe").load(block)
    assert load_spec(write(tmp_path / "spec.yaml", changed(dict(part)))).online


def test_it_names_the_settings(doc: str) -> None:
    quick = {"segment_rows", "segment_every_s", "checkpoint_every_s", "joining"}
    for name in {*Online.model_fields, *Joining.model_fields} - quick:
        assert name in doc, name

"""What docs/training.md shows is valid, and names every loss, balance, optimizer and schedule."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from ruamel.yaml import YAML

from sangam.schemas.loading import load_spec
from sangam.schemas.parts.roles import BinaryLoss, DenseOptimizer, RegressionLoss
from sangam.schemas.spec import tasks, training
from tests.registered_kinds import ours
from tests.schemas.sample_specs import changed, write


@pytest.fixture(scope="module")
def doc(repository: Path) -> str:
    return (repository / "docs" / "training.md").read_text()


def _laid_over(document: Any, part: Any) -> Any:
    if not (isinstance(document, dict) and isinstance(part, dict)) or "kind" in part:
        return part
    return document | {name: _laid_over(document.get(name), value) for name, value in part.items()}


def test_its_pieces_of_specs_are_valid(doc: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", doc, re.DOTALL)
    assert len(blocks) == 12
    for number, block in enumerate(blocks):
        document = _laid_over(changed({}), YAML(typ="safe").load(block))
        assert load_spec(write(tmp_path / f"{number}.yaml", document))


def test_it_names_every_kind(doc: str) -> None:
    unions = [training.LossBalance, training.Schedule, tasks.Task, tasks.CalibrationKind]
    members = [member for union in unions for member in get_args(get_args(union)[0])]
    kinds = [get_args(member.model_fields["kind"].annotation)[0] for member in members]
    for role in (DenseOptimizer, BinaryLoss, RegressionLoss):
        kinds += ours(role)
    assert len(kinds) > 15
    for kind in kinds:
        words = "every_steps" if kind == "step" else kind
        assert re.search(rf"\b{words}\b", doc), kind

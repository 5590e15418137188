"""Modules beside a spec are imported, and a mistake in one is told with its file and line."""

import sys
from pathlib import Path

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.loading.documents import check_document
from sangam.schemas.parts.importing import FOLDERS, import_part, look_beside
from sangam.schemas.parts.kinds import kinds_of
from sangam.schemas.parts.roles import BinaryLoss
from sangam.schemas.spec import Spec, digest
from tests.errors import tells

LOSS = '''
from typing import Literal
from sangam.parts import BinaryLoss, PositiveFloat

class Margin(BinaryLoss):
    """A loss."""

    kind: Literal["{kind}"]
    smoothness: PositiveFloat = 0.5
    """Width of the bend."""

    def losses(self, logits_B, examples):
        return logits_B
'''
SPEC = """
name: r
parts: [{module}]
data: {{kind: days, format: parquet, pattern: "{{YYYY}}-{{MM}}-{{DD}}/*.parquet", train_days: 1, eval_days: 1}}
features: {{price: {{kind: numeric}}}}
tasks: {{click: {{kind: binary, loss: {loss}}}}}
model: {{kind: single_task}}
training:
  batch_size_per_rank: 8
  dense_optimizer: {{kind: sgd, learning_rate: 0.1}}
  embedding_optimizer: {{kind: sgd, learning_rate: 0.1}}
gates: [{{task: click, metric: auc, at_least: 0.5}}]
push: {{kind: directory, path: serving}}
"""


@pytest.fixture(autouse=True)
def _paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps what a test adds to the path and the environment to itself."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(FOLDERS, "")


def _spec(folder: Path, module: str, source: str, loss: str) -> Path:
    file = folder.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)
    (folder / "spec.yaml").write_text(SPEC.format(module=module, loss=loss))
    return folder / "spec.yaml"


def test_a_loss_beside_the_spec_has_its_keys_and_reaches_other_processes_as_json(tmp_path: Path) -> None:
    path = _spec(tmp_path, "team_one.ranking", LOSS.format(kind="margin_one"), "{kind: margin_one, smoothness: 0.25}")
    spec = load_spec(path)
    loss = spec.tasks["click"].loss  # type: ignore[union-attr]
    assert (type(loss).__module__, loss.smoothness) == ("team_one.ranking", 0.25)  # type: ignore[attr-defined]
    assert Spec.model_validate_json(spec.model_dump_json()) == spec
    assert spec.inputs().parts == spec.ranker().parts == ("team_one.ranking",)
    assert digest(spec.ranker()) != digest(spec.ranker().model_copy(update={"parts": ()}))


@pytest.mark.parametrize(
    ("loss", "place", "value"),
    [
        ("{kind: margin_two, smoothnes: 1.0}", "tasks.click.loss.smoothnes", "(got 1.0) ... 'smoothness'"),
        ("{kind: margin_two, smoothness: 0}", "tasks.click.loss.smoothness", "(got 0)"),
        ("{kind: margin_too}", "tasks.click.loss.kind", "(got 'margin_too') ... 'margin_two'"),
        ("{}", "tasks.click.loss.kind", "'margin_two'"),
    ],
)
def test_mistakes_in_its_keys_are_told_like_those_of_the_product(
    loss: str, place: str, value: str, tmp_path: Path
) -> None:
    path = _spec(tmp_path, "team_two", LOSS.format(kind="margin_two"), loss)
    sys.modules.pop("team_two", None)
    with pytest.raises(UserError) as caught:
        load_spec(path)
    assert tells(str(caught.value), place, value), str(caught.value)


@pytest.mark.parametrize("raised", ["ValueError('odd')", "PydanticCustomError('mine', 'odd')"])
def test_what_its_own_validators_refuse_is_told_with_the_place(raised: str, tmp_path: Path) -> None:
    source = (
        LOSS.format(kind="margin_nine")
        + f"""
    @field_validator("smoothness")
    @classmethod
    def _even(cls, value):
        raise {raised}
"""
    )
    imports = "from pydantic import field_validator\nfrom pydantic_core import PydanticCustomError\n"
    path = _spec(tmp_path, "team_nine", imports + source, "{kind: margin_nine, smoothness: 1.0}")
    sys.modules.pop("team_nine", None)
    with pytest.raises(UserError) as caught:
        load_spec(path)
    assert tells(str(caught.value), "tasks.click.loss.smoothness", "(got 1.0) ... odd")


@pytest.mark.parametrize(
    ("source", "line", "what"),
    [
        ("x = 1\ny = x.z\n", 2, "AttributeError"),
        ("def f(:\n", 1, "SyntaxError"),
        ("import no_such_library\n", 1, "ModuleNotFoundError"),
    ],
)
def test_an_import_that_fails_is_told_with_its_line(source: str, line: int, what: str, tmp_path: Path) -> None:
    path = _spec(tmp_path, "team_three", source, "{kind: cross_entropy}")
    sys.modules.pop("team_three", None)
    with pytest.raises(UserError) as caught:
        load_spec(path)
    assert f"{tmp_path / 'team_three.py'}:{line}: {what}" in str(caught.value)
    assert "line 3: parts[0]" in str(caught.value)


def test_a_module_that_is_nowhere_is_told_with_the_places_where_it_was_looked_for(tmp_path: Path) -> None:
    look_beside(tmp_path / "spec.yaml")
    with pytest.raises(UserError) as caught:
        import_part("team_four.ranking")
    assert tells(str(caught.value), "parts", "(got 'team_four.ranking')")
    assert str(tmp_path) in str(caught.value)


def test_a_module_that_an_installed_one_hides_is_refused(tmp_path: Path) -> None:
    path = _spec(tmp_path, "rich", "", "{kind: cross_entropy}")
    with pytest.raises(UserError, match="another module than the one beside the spec"):
        load_spec(path)


def test_a_kind_that_is_taken_is_refused_with_both_places(tmp_path: Path) -> None:
    path = _spec(tmp_path, "team_five", LOSS.format(kind="focal"), "{kind: focal}")
    with pytest.raises(UserError) as caught:
        load_spec(path)
    assert "team_five.py:5: kind 'focal' of role 'binary_loss' is taken" in str(caught.value)
    assert kinds_of(BinaryLoss)["focal"].__module__ == "sangam.schemas.spec.tasks"


def test_a_class_without_its_method_is_refused(tmp_path: Path) -> None:
    source = LOSS.format(kind="margin_six").replace("def losses(", "def loses(")
    with pytest.raises(UserError) as caught:
        load_spec(_spec(tmp_path, "team_six", source, "{kind: margin_six}"))
    assert "has no method `losses`" in str(caught.value)


def test_a_part_that_reads_what_is_no_feature_of_one_id_is_refused(tmp_path: Path) -> None:
    source = LOSS.format(kind="margin_seven") + "\n    def reads(self):\n        return ['price']\n"
    path = _spec(tmp_path, "team_seven", source, "{kind: margin_seven}")
    with pytest.raises(UserError) as caught:
        load_spec(path)
    assert tells(str(caught.value), "tasks.click.loss", "(got 'price') ... none"), str(caught.value)


def test_a_kind_of_a_module_that_the_spec_does_not_name_is_refused(tmp_path: Path) -> None:
    path = _spec(tmp_path, "team_eight", LOSS.format(kind="margin_eight"), "{kind: margin_eight}")
    load_spec(path)
    path.write_text(path.read_text().replace("parts: [team_eight]", ""))
    with pytest.raises(UserError) as caught:
        load_spec(path)
    assert tells(str(caught.value), "tasks.click.loss.kind", "(got 'margin_eight' of team_eight) ... parts")


def test_parts_that_are_no_list_are_told_by_their_type() -> None:
    found = check_document({"parts": "team"})
    assert isinstance(found, list)
    assert "parts" in {str(problem.loc[0]) for problem in found}

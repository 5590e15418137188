"""The models of docs/models.md are valid, and its formulas count the parameters."""

import functools
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sangam.schemas.derived.sizes import dense_parts
from sangam.schemas.spec import Spec
from tests.paths import REPOSITORY
from tests.schemas.sample_specs import REMOVED, loaded

DOC = (REPOSITORY / "docs" / "models.md").read_text()
ROWS = re.findall(r"^\| `(\{.*?\})`[^|]*\|.*\| `([^`]*)` \|$", DOC, re.MULTILINE)
BLOCKS = re.findall(r"```yaml\n(.*?)```", DOC, re.DOTALL)
FLOATS, DIM, VECTORS = 1, 8, 4


def spec_of(tmp_path: Path, model: dict[str, Any]) -> Spec:
    tasks = {"click": {"kind": "binary"}, "convert": {"kind": "binary"}}
    gates = [{"task": "click", "metric": "auc", "at_least": 0.6}]
    changes = {"model": model, "tasks": tasks, "gates": gates, "tables.tags.dim": DIM}
    return loaded(tmp_path, {**changes, "features.recent.encoder": REMOVED})


def parsed(text: str) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(text))


def n(*widths: int) -> int:
    return sum((before + 1) * after for before, after in itertools.pairwise(widths))


def m(members: int, *widths: int) -> int:
    return sum(a * b + members * (a + 2 * b) for a, b in itertools.pairwise(widths))


@pytest.mark.parametrize(("model", "formula"), [row for row in ROWS if "dcn" not in row[0] and "dlrm" not in row[0]])
def test_the_formula_of_task_heads_counts_their_parameters(tmp_path: Path, model: str, formula: str) -> None:
    spec = spec_of(tmp_path, parsed(model))
    names = spec.model.model_dump() | {"n": n, "T": 2, "I": FLOATS + VECTORS * DIM, "W": spec.model.tower_units[-1]}
    names["m"] = functools.partial(m, spec.model.members)
    if spec.model.kind == "ple":
        own, shared = spec.model.task_experts, spec.model.shared_experts
        names |= {"E": 2 * own + shared, "G": own + shared, "H": spec.model.expert_units[-1]}
    assert eval(formula, names) == sum(dense_parts(spec).values())


@pytest.mark.parametrize(("model", "formula"), [row for row in ROWS if "dcn" in row[0] or "dlrm" in row[0]])
def test_the_formula_of_an_interaction_counts_its_parameters(tmp_path: Path, model: str, formula: str) -> None:
    spec = spec_of(tmp_path, {"kind": "single_task", "interaction": parsed(model)})
    interaction = spec.model.interaction
    assert interaction is not None
    width = FLOATS + VECTORS * DIM
    inputs = {"dlrm": DIM + (VECTORS + 1) * VECTORS // 2}.get(interaction.kind, width)
    inputs += (getattr(interaction, "deep_units", None) or (0,))[-1]
    names = interaction.model_dump() | {"n": n, "X": width, "F": FLOATS, "D": DIM}
    counted = dense_parts(spec)
    assert eval(formula, names) == counted["interaction"]
    assert counted["towers"] == 2 * n(inputs, *spec.model.tower_units, 1)


def test_every_architecture_is_in_the_tables() -> None:
    assert {parsed(model)["kind"] for model, _ in ROWS} == {
        "single_task", "shared_bottom", "mmoe", "ple", "esmm", "aitm", "dcn_v2", "dlrm",
    }  # fmt: skip


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_are_valid(tmp_path: Path, block: str) -> None:
    assert spec_of(tmp_path, parsed(block)).model.interaction is not None

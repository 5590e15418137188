"""Specs in Python: the same specs as of files, and the same mistakes."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

import sangam
from sangam.schemas.loading import MAX_DEPTH, MAX_FILE_BYTES, load_spec
from sangam.schemas.spec import digest
from tests.errors import place_and_value
from tests.paths import SPECS

DEMO = SPECS / "short_video.yaml"


@pytest.fixture(scope="module")
def demo() -> sangam.Spec:
    return sangam.Spec.load(DEMO)


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_its_text_and_its_data_are_one_spec(path: Path) -> None:
    spec, declared = sangam.Spec.load(path), load_spec(path)
    assert (spec.name, spec.digest) == (declared.name, digest(declared))
    assert spec.text == path.read_text()
    of_text, of_data = sangam.Spec.from_yaml(spec.text), sangam.Spec.from_dict(spec.to_dict())
    assert of_text == of_data == sangam.Spec.from_yaml(of_data.text) == spec
    assert spec.to_dict(defaults=True) == declared.model_dump(mode="json")


def test_data_is_what_the_yaml_says(demo: sangam.Spec) -> None:
    assert demo.to_dict() == YAML(typ="safe", pure=True).load(DEMO.read_text())
    demo.to_dict()["name"] = "other"
    assert demo.to_dict()["name"] == "short_video"


def test_values_are_set_at_paths_and_numbers_of_numpy_are_numbers(demo: sangam.Spec) -> None:
    values = {"training.epochs": np.int64(7), "training.dense_optimizer.learning_rate": np.float32(0.5)}
    changed = demo.with_values(values).declared.training
    assert (changed.epochs, changed.dense_optimizer.learning_rate) == (7, 0.5)
    assert demo.declared.training.epochs != 7


def test_tuples_are_lists(demo: sangam.Spec) -> None:
    document = demo.to_dict()
    assert sangam.Spec.from_dict(document | {"gates": tuple(document["gates"])}) == demo


def test_all_problems_are_told_with_their_places(demo: sangam.Spec, tmp_path: Path) -> None:
    assert sangam.validate(demo) == sangam.validate(DEMO) == sangam.validate(str(DEMO)) == []
    wrong = demo.to_dict() | {"nam": 1, "push": {"kind": "nowhere"}}
    problems = sangam.validate(wrong)
    assert {problem.loc for problem in problems} == {("nam",), ("push", "kind")}
    assert all(problem.line is None for problem in problems)
    with pytest.raises(sangam.SpecError, match=place_and_value("push.kind", "'nowhere'")) as error:
        sangam.Spec.from_dict(wrong)
    assert error.value.problems == tuple(problems)
    file = tmp_path / "wrong.yaml"
    file.write_text(DEMO.read_text() + "nam: 1\n")
    [problem] = sangam.validate(file)
    assert (problem.loc, problem.line) == (("nam",), len(file.read_text().splitlines()))
    assert [each.line for each in sangam.validate(tmp_path / "none.yaml")] == [None]


def _nested(depth: int) -> Any:
    return {"name": _nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    ("document", "place", "value"),
    [
        ({1: 2}, "(whole file)", "(got 1)"),
        ({"name": {1, 2}}, "name", "(got {1, 2})"),
        ({"name": Path("a")}, "name", "(got a)"),
        ({"training": {"epochs": math.nan}}, "training.epochs", ""),
        (_nested(MAX_DEPTH + 2), "(whole file)", "levels"),
    ],
)
def test_what_is_no_plain_data_is_refused(document: dict[Any, Any], place: str, value: str) -> None:
    with pytest.raises(sangam.SpecError, match=place_and_value(place, value)):
        sangam.Spec.from_dict(document)


def test_a_text_that_is_too_long_or_no_mapping_is_refused() -> None:
    for text, value in (("#" * (MAX_FILE_BYTES + 1), str(MAX_FILE_BYTES)), ("- 1", "(got list)"), ("a: [", "YAML")):
        with pytest.raises(sangam.SpecError, match=place_and_value("(whole file)", value)):
            sangam.Spec.from_yaml(text)


def test_a_path_through_a_list_is_refused(demo: sangam.Spec) -> None:
    with pytest.raises(sangam.SpecError, match=place_and_value("gates", "list")):
        demo.with_values({"gates.0.at_least": 0.7})


def test_a_saved_spec_is_loaded_as_it_was(demo: sangam.Spec, tmp_path: Path) -> None:
    assert sangam.Spec.load(demo.save(tmp_path / "spec.yaml")).text == demo.text
    with pytest.raises(sangam.UserError, match=place_and_value("path", "none/spec.yaml")):
        demo.save(tmp_path / "none" / "spec.yaml")


def test_a_plan_is_of_the_rows_and_ranks(demo: sangam.Spec) -> None:
    small, large = (demo.plan(rows=dict.fromkeys(demo.declared.tables, rows), ranks=3) for rows in (1_000, 100_000))
    assert small.ranks.number == 3
    for name, table in large.tables.items():
        assert (table.rows, small.tables[name].rows) == (100_000, 1_000)
        assert table.total_bytes > small.tables[name].total_bytes
    with pytest.raises(sangam.UserError, match=place_and_value("--rows", "'nothing'")):
        demo.plan(rows={"nothing": 1})

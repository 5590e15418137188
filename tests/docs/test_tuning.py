"""What docs/tuning.md shows works: the example is valid in the spec that it names, and every file is listed."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sangam.pipelines.tune import request, results
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.tuning import Tuning


@pytest.fixture(scope="module")
def doc(repository: Path) -> str:
    return (repository / "docs" / "tuning.md").read_text()


def test_its_examples_are_valid_in_the_spec_of_its_command(doc: str, repository: Path, tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", doc, re.DOTALL)
    [spec] = re.findall(r"sangam tune (\S+)", doc)
    document = YAML(typ="safe").load(repository / spec)
    shown: set[str] = set()
    for example in examples:
        document["tune"] = YAML(typ="safe").load(example)["tune"]
        YAML(typ="safe").dump(document, tmp_path / "spec.yaml")
        loaded = load_spec(tmp_path / "spec.yaml").tune
        assert loaded
        shown |= loaded.model_fields_set
    assert shown == set(Tuning.model_fields)


def test_every_file_that_a_search_leaves_is_listed(doc: str) -> None:
    listed = set(re.findall(r"`([\w.]+\.\w+)`", doc.split("| in `<root>")[1]))
    assert listed == {
        *(results.BEST_FILE, results.TABLE_FILE, results.PAGE_FILE, results.PLOT_FILE),
        *(request.STUDY_FILE, request.IDENTITY_FILE, "spec.yaml", "examples.json"),
    }

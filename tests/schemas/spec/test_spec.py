"""A spec is frozen, cheap to load, and its digest is that of its meaning."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pydantic
import pytest
from ruamel.yaml import YAML

from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec, digest
from sangam.schemas.spec.optimizers import Adagrad, Adam, Ftrl, RowwiseAdagrad, Sgd
from tests.schemas.sample_specs import VALID, changed, loaded, write

SPECS = ("short_video", "online_retail", "census_income")


def test_digest_does_not_see_key_order_comments_or_defaults_written_out(tmp_path: Path) -> None:
    plain = loaded(tmp_path)
    turned = dict(reversed(list(VALID.items())))
    turned["features"] = dict(reversed(list(VALID["features"].items())))
    path = tmp_path / "turned.yaml"
    with path.open("w") as file:
        file.write("# a comment\n")
        YAML().dump(turned, file)
    assert digest(load_spec(path)) == digest(plain)
    assert digest(loaded(tmp_path, {"model.num_experts": 4, "data.eval_days": 1})) == digest(plain)


@pytest.mark.parametrize("changes", [{"name": "other"}, {"gates.0.at_least": 0.61}, {"tables.users.dim": 9}])
def test_digest_sees_every_change_of_meaning(tmp_path: Path, changes: dict[str, object]) -> None:
    assert digest(loaded(tmp_path, changes)) != digest(loaded(tmp_path))


def test_what_a_model_depends_on_does_not_change_with_gates_slices_or_push(tmp_path: Path) -> None:
    plain = loaded(tmp_path)
    judged = loaded(tmp_path, {"gates.0.at_least": 0.7, "push": {"kind": "none"}, "evaluation": {"slices": []}})
    assert digest(judged.ranker()) == digest(plain.ranker())
    assert digest(judged.inputs()) == digest(plain.inputs())
    deeper = loaded(tmp_path, {"model.num_experts": 5})
    assert digest(deeper.ranker()) != digest(plain.ranker())
    assert digest(deeper.inputs()) == digest(plain.inputs())


def test_spec_is_frozen_all_the_way_down(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    for part, field in ((spec, "name"), (spec.model, "num_experts"), (spec.features["user"], "column")):
        with pytest.raises(pydantic.ValidationError, match="frozen"):
            setattr(part, field, "other")


def test_spec_survives_its_own_json(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    assert Spec.model_validate_json(spec.model_dump_json()) == spec


def test_columns_labels_and_tables_default_to_names(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    assert (spec.column_of("user"), spec.column_of("age")) == ("user_id", "age")
    assert (spec.label_of("stars"), spec.label_of("like")) == ("rating", "like")
    assert (spec.table_of("user"), spec.table_of("age")) == ("users", None)


def test_loading_takes_under_two_seconds_of_a_core_and_no_tensorflow(tmp_path: Path, repository: Path) -> None:
    path = write(tmp_path / "spec.yaml", changed({}))
    program = (
        "import sys, json, pathlib, sangam.schemas.loading as loading; loading.load_spec(pathlib.Path(sys.argv[1]));"
        "heavy = {'tensorflow', 'tfx', 'apache_beam', 'numpy', 'pyarrow', 'horovod'};"
        "print(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=True, cwd=repository)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
    assert json.loads(ran.stdout) == []


@pytest.mark.parametrize("name", SPECS)
def test_specs_of_the_repository_load(repository: Path, name: str) -> None:
    assert load_spec(repository / "pipelines" / "specs" / f"{name}.yaml").name == name


def test_the_example_of_the_readme_loads(repository: Path, tmp_path: Path) -> None:
    page = (repository / "README.md").read_text()
    path = tmp_path / "spec.yaml"
    path.write_text(page.split("```yaml\n", 1)[1].split("```", 1)[0])
    assert load_spec(path).name == "short_video"


def test_the_page_of_tables_has_the_floats_that_each_optimizer_keeps(repository: Path) -> None:
    page = (repository / "docs" / "tables.md").read_text()
    floats = {0: "0", 1: "1", 12: "dim", 24: "2 x dim"}
    for kind in (Sgd, RowwiseAdagrad, Adagrad, Adam, Ftrl):
        name = kind.model_fields["kind"].annotation.__args__[0]
        optimizer = kind(kind=name, learning_rate=0.1)
        assert f"| `{name}` | {floats[optimizer.slot_floats(12)]} |" in page

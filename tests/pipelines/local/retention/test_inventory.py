"""What is found in a root on the disk."""

import json
import math
import os
import time
from pathlib import Path

import pytest

from sangam.components.record.lock import locked
from sangam.components.registry.seal import list_files
from sangam.components.registry.versions import withdraw
from sangam.components.reports.spec_file import write_spec
from sangam.pipelines.local.retention.inventory import Inventory, rankers_of, take_inventory
from sangam.pipelines.times import utc_now
from sangam.schemas.contracts.root import Root
from tests.components.record.sample_records import record
from tests.schemas.sample_specs import loaded

OLD, NEW = "20240305T020000-1a2b3c4d", "20240306T020000-1a2b3c4d"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(str(tmp_path))


def inventory(root: Root, tmp_path: Path) -> Inventory:
    return take_inventory(root, "small", loaded(tmp_path))


def version(root: Root, name: str, ranker: str = "small") -> Path:
    folder = root.path / "serving" / "small" / name
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_text(name)
    files = {path: entry.model_dump() for path, entry in list_files(folder).items()}
    (folder / "manifest.json").write_text(json.dumps({"name": ranker, "files": files}))
    return folder


def leave(root: Root, run: str, name: str) -> None:
    (root.runs / run).mkdir(parents=True)
    told = record(run=run, name=name, date="2024-03-05", base="/base")
    (root.runs / run / "summary.json").write_text(told.text())


def test_runs_are_told_apart_by_their_ranker_also_before_they_have_ended(root: Root, tmp_path: Path) -> None:
    leave(root, OLD, "small")
    leave(root, "20240305T030000-1a2b3c4d", "other")
    (root.runs / NEW).mkdir()
    write_spec(root.runs / NEW, loaded(tmp_path))
    (root.runs / "of-kubeflow" / "failures").mkdir(parents=True)
    there = inventory(root, tmp_path)
    assert [path.name for path in there.runs] == [NEW, OLD]
    assert there.foreign_runs == {"20240305T030000-1a2b3c4d", "of-kubeflow"}
    assert (there.dates, there.last_base, there.last_good) == (("2024-03-05",), "", OLD)
    assert rankers_of(root) == ["other", "small"]


def test_days_are_folders_and_the_generation_of_the_store_is_not(root: Root, tmp_path: Path) -> None:
    store = Path(root.examples("small"))
    (store / "2024-03-05-aa").mkdir(parents=True)
    (store / "generation").write_text("1")
    assert [path.name for path in inventory(root, tmp_path).days] == ["2024-03-05-aa"]


def test_versions_of_others_are_not_the_rankers(root: Root, tmp_path: Path) -> None:
    version(root, "20240305001")
    version(root, "20240306001")
    version(root, "20240304001", ranker="other")
    found = [(each.path.name, each.is_withdrawn) for folder in inventory(root, tmp_path).versions for each in folder]
    assert found == [("20240305001", False), ("20240306001", False)]


def test_what_online_training_uses_is_marked(root: Root, tmp_path: Path) -> None:
    version(root, "20240305001")
    version(root, "20240306001")
    (root.online("small") / "training" / "20240305001").mkdir(parents=True)
    there = inventory(root, tmp_path)
    assert there.lineages == {"20240305001"}
    assert [each.is_online for each in there.versions[0]] == [True, False]


def test_a_training_that_began_lately_may_be_running(root: Root, tmp_path: Path) -> None:
    folder = root.checkpoints("small")
    for name, age_s in (("a", 10.0), ("b", 1e9)):
        (folder / (name * 32)).mkdir(parents=True)
        begun = folder / (name * 32) / "begun"
        begun.write_text("")
        os.utime(begun, (time.time() - age_s,) * 2)
    found = {path.name[0]: may_run for path, may_run in inventory(root, tmp_path).trainings.items()}
    assert list(found.items()) == [("a", True), ("b", False)]


def test_a_search_is_under_way_while_it_holds_its_lock(root: Root, tmp_path: Path) -> None:
    search = root.tune("small") / "12345678"
    (search / "trials").mkdir(parents=True)
    examples = {"run": OLD, "train_files": ["/t"], "validation_files": [], "transform_graph": "/g", "days": []}
    (search / "examples.json").write_text(json.dumps(examples))
    with locked(search):
        there = inventory(root, tmp_path)
    assert (there.searches, there.searched) == ({search / "trials": math.inf}, {"/t", "/g"})
    there = inventory(root, tmp_path)
    changed = (search / "examples.json").stat().st_mtime
    assert there.searched == frozenset()
    assert changed <= there.searches[search / "trials"] < math.inf


def test_withdrawn_versions_are_found(root: Root, tmp_path: Path) -> None:
    version(root, "20240305001")
    version(root, "20240306001")
    withdraw(root.path / "serving" / "small", because="likes fell", now=utc_now())
    [folder_of_versions] = inventory(root, tmp_path).versions
    assert [(each.path.name, each.is_withdrawn) for each in folder_of_versions] == [
        ("20240305001", False),
        ("20240306001", True),
    ]

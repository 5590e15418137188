"""The registry of blessed models, and the driver and executor that ask it for a baseline."""

import datetime
import json
import multiprocessing
import shutil
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry import versions
from sangam.schemas.contracts.root import Root
from tests.components.registry.sample_blessings import blessing
from tests.errors import place_and_value

pytestmark = pytest.mark.slow


NOW = datetime.datetime(2024, 1, 9, tzinfo=datetime.UTC)


def make(uri: str, *days: str, **more: Any) -> Any:
    metrics = {"like": {"auc": 0.7, "rmse": None}}
    return blessing(uri, metrics=metrics, checkpoint_uri=f"{uri}-checkpoint", days=days, **more)


def push(root: Path, uri: str, version: str, *, pushes: int = 0) -> None:
    """Registers a model as the pusher does, with a version of its own in the folder that servers look into."""
    from sangam.components.registry.blessed import record

    (root / "serving" / version).mkdir(parents=True)
    (root / "serving" / version / "saved_model.pb").write_text(uri)
    record(Root(str(root)).blessed("tiny"), make(uri, pushed=f"serving/{version}", pushes=pushes))


def baseline(root: Path, candidate: str = "new") -> str | None:
    from sangam.components.registry.blessed import baseline_for, read_all

    return baseline_for(candidate, read_all(Root(str(root)).blessed("tiny")))


def register(directory: str, *uris: str) -> None:
    from sangam.components.registry.blessed import record

    for uri in uris:
        record(directory, make(uri))


def test_blessings_are_read_back_in_order(tmp_path: Path) -> None:
    from sangam.components.registry.blessed import read_all

    directory = Root(str(tmp_path)).blessed("tiny")
    register(directory, "a", "b")
    assert read_all(directory) == [make("a"), make("b")]
    assert sorted(path.name for path in Path(directory).iterdir()) == ["00000001.json", "00000002.json"]


def test_a_model_is_registered_once(tmp_path: Path) -> None:
    from sangam.components.registry.blessed import read_all

    register(str(tmp_path), "a", "b", "a")
    assert [model.model_uri for model in read_all(str(tmp_path))] == ["a", "b"]


def test_blessings_at_once_all_stay(tmp_path: Path) -> None:
    from sangam.components.registry.blessed import read_all

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=register, args=(str(tmp_path), f"m{index}")) for index in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert {model.model_uri for model in read_all(str(tmp_path))} == {"m0", "m1", "m2", "m3"}


@pytest.mark.parametrize(
    ("candidate", "baseline"),
    [("new", "b"), ("b", "a"), ("a", None)],
    ids=["new: the last", "blessed already: the one before", "the first: none"],
)
def test_baseline_is_the_model_blessed_before_the_candidate(candidate: str, baseline: str | None) -> None:
    from sangam.components.registry.blessed import baseline_for

    assert baseline_for(candidate, [make("a"), make("b")]) == baseline


def test_a_model_that_has_learned_from_the_evaluation_days_is_no_baseline() -> None:
    from sangam.components.registry.blessed import baseline_for

    models = [make("old", "2024-01-01"), make("newer", "2024-01-01", "2024-01-03"), make("rerun of old", "2024-01-01")]
    assert baseline_for("x", models, ["2024-01-04"]) == "newer"
    assert baseline_for("x", models, ["2024-01-03"]) == "rerun of old"
    assert baseline_for("rerun of old", models, ["2024-01-03"]) == "old"
    assert baseline_for("x", models, ["2024-01-01"]) is None


def test_after_a_rollback_the_version_before_it_is_the_baseline_and_after_a_second_one_the_one_before_that(
    tmp_path: Path,
) -> None:
    for number, uri in enumerate("abc", start=1):
        push(tmp_path, uri, f"2024010700{number}")
    found = [baseline(tmp_path)]
    for _ in range(2):
        versions.withdraw(tmp_path / "serving", because="likes fell", now=NOW)
        found.append(baseline(tmp_path))
    assert found == ["c", "b", "a"]
    assert [baseline(tmp_path, of) for of in "abc"] == [None, "a", "a"]
    push(tmp_path, "d", "20240107004")
    assert baseline(tmp_path) == "d"
    versions.restore(tmp_path / "serving", "20240107003")
    assert [baseline(tmp_path), baseline(tmp_path, "d")] == ["d", "c"]


def test_a_model_that_was_pushed_again_is_the_baseline_again_until_that_version_is_rolled_back(tmp_path: Path) -> None:
    for uri, version, pushes in (("a", "20240107001", 0), ("b", "20240107002", 0), ("a", "20240107003", 1)):
        push(tmp_path, uri, version, pushes=pushes)
    assert baseline(tmp_path) == "a"
    versions.withdraw(tmp_path / "serving", because="likes fell", now=NOW)
    assert baseline(tmp_path) == "b"


def test_a_rollback_is_known_in_a_root_that_was_moved_and_once_the_withdrawn_files_are_gone(tmp_path: Path) -> None:
    for number, uri in enumerate("ab", start=1):
        push(tmp_path / "old", uri, f"2024010700{number}")
    versions.withdraw(tmp_path / "old" / "serving", because="likes fell", now=NOW)
    moved = (tmp_path / "old").rename(tmp_path / "new")
    assert baseline(moved) == "a"
    shutil.rmtree(moved / "serving" / "withdrawn" / "20240107002")
    assert baseline(moved) == "a"


@pytest.mark.parametrize(("change", "got"), [({}, "none"), ({"format": 2, "new": 0}, "2")])
def test_a_record_of_another_format_is_refused(change: dict[str, int], got: str, tmp_path: Path) -> None:
    from sangam.components.registry.blessed import read_all
    from sangam.schemas.errors import UserError

    directory = Root(str(tmp_path)).blessed("tiny")
    register(directory, "a")
    file = Path(directory, "00000001.json")
    document = json.loads(file.read_text())
    assert document.pop("format") == 1
    file.write_text(json.dumps(document | change))
    with pytest.raises(UserError, match=place_and_value(str(file), f"(got {got})")):
        read_all(directory)


def test_without_blessings_there_is_no_baseline(tmp_path: Path) -> None:
    from sangam.components.registry.blessed import baseline_for, read_all

    assert baseline_for("a", read_all(str(tmp_path / "none"))) is None


def test_a_number_that_was_taken_for_nothing_is_passed_over_and_not_given_again(tmp_path: Path) -> None:
    from sangam.components.registry.blessed import read_all

    register(str(tmp_path), "a")
    # Killed between the number and the record.
    (tmp_path / "00000002.json").touch()
    assert read_all(str(tmp_path)) == [make("a")]
    register(str(tmp_path), "b")
    assert read_all(str(tmp_path)) == [make("a"), make("b")]
    assert (tmp_path / "00000003.json").exists()


@pytest.mark.parametrize("text", ["{", '{"format": 1, "model_uri": "a"}'])
def test_an_unreadable_entry_is_named(text: str, tmp_path: Path) -> None:
    from sangam.components.registry.blessed import read_all
    from sangam.schemas.errors import UserError

    (tmp_path / "00000001.json").write_text(text)
    with pytest.raises(UserError, match=place_and_value("00000001.json", "(got ... ) ... restore")):
        read_all(str(tmp_path))


def test_driver_puts_the_baseline_into_the_exec_properties(tmp_path: Path) -> None:
    from tfx.orchestration.portable.data_types import ExecutionInfo
    from tfx.types import standard_artifacts

    from sangam.components.steps.evaluator.driver import Driver

    def resolved(uri: str) -> str:
        model = standard_artifacts.Model()
        model.uri = uri
        properties = {"pipeline_root": str(tmp_path), "name": "tiny", "gates": json.dumps([])}
        inputs = {"model": [model], "examples": [standard_artifacts.Examples()]}
        output = Driver(None).run(ExecutionInfo(input_dict=inputs, exec_properties=properties))
        assert set(output.exec_properties) == {"pipeline_root", "name", "gates", "baseline_uri"}
        return str(output.exec_properties["baseline_uri"].string_value)

    assert resolved("new") == ""
    register(Root(str(tmp_path)).blessed("tiny"), "a", "b")
    assert [resolved("new"), resolved("b"), resolved("a")] == ["b", "a", ""]
    for number, uri in enumerate("cd", start=1):
        push(tmp_path, uri, f"2024010700{number}")
    versions.withdraw(tmp_path / "serving", because="likes fell", now=NOW)
    assert resolved("new") == "c"

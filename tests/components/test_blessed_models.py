"""The registry of blessed models, and the driver and executor that ask it for a baseline."""

import datetime
import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def make(uri: str, *days: str) -> Any:
    from components.registry.blessed import BlessedModel

    now = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    metrics = {"like": {"auc": 0.7, "rmse": None}}
    checkpoint = f"{uri}-checkpoint" if days else ""
    return BlessedModel(
        model_uri=uri, ranker_digest="d", blessed_at=now, metrics=metrics, checkpoint_uri=checkpoint, days=days
    )


def register(directory: str, *uris: str) -> None:
    from components.registry.blessed import record

    for uri in uris:
        record(directory, make(uri))


def test_blessings_are_read_back_in_order(tmp_path: Path) -> None:
    from components.registry.blessed import folder, read_all

    directory = folder(str(tmp_path), "tiny")
    register(directory, "a", "b")
    assert read_all(directory) == [make("a"), make("b")]
    assert sorted(path.name for path in Path(directory).iterdir()) == ["00000001.json", "00000002.json"]


def test_a_model_is_registered_once(tmp_path: Path) -> None:
    from components.registry.blessed import read_all

    register(str(tmp_path), "a", "b", "a")
    assert [model.model_uri for model in read_all(str(tmp_path))] == ["a", "b"]


def test_blessings_at_once_all_stay(tmp_path: Path) -> None:
    from components.registry.blessed import read_all

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=register, args=(str(tmp_path), f"m{index}")) for index in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert {model.model_uri for model in read_all(str(tmp_path))} == {"m0", "m1", "m2", "m3"}


@pytest.mark.parametrize(
    ("candidate", "baseline"),
    [("new", "b"), ("b", "a"), ("a", None)],
    ids=["new: the last", "blessed already: the one before", "the first: none"],
)
def test_baseline_is_the_model_blessed_before_the_candidate(candidate: str, baseline: str | None) -> None:
    from components.registry.blessed import baseline_for

    assert baseline_for(candidate, [make("a"), make("b")]) == baseline


def test_a_model_that_has_learnt_from_the_evaluation_days_is_no_baseline() -> None:
    from components.registry.blessed import baseline_for

    models = [make("old", "2024-01-01"), make("newer", "2024-01-01", "2024-01-03"), make("rerun of old", "2024-01-01")]
    assert baseline_for("x", models, ["2024-01-04"]) == "newer"
    assert baseline_for("x", models, ["2024-01-03"]) == "rerun of old"
    assert baseline_for("rerun of old", models, ["2024-01-03"]) == "old"
    assert baseline_for("x", models, ["2024-01-01"]) is None


def test_a_record_of_before_checkpoints_is_read(tmp_path: Path) -> None:
    from components.registry.blessed import read_all

    record = {"model_uri": "a", "ranker_digest": "d", "blessed_at": "2024-01-01T00:00:00Z", "metrics": {}}
    (tmp_path / "00000001.json").write_text(json.dumps(record))
    [model] = read_all(str(tmp_path))
    assert (model.checkpoint_uri, model.days) == ("", ())


def test_without_blessings_there_is_no_baseline(tmp_path: Path) -> None:
    from components.registry.blessed import baseline_for, read_all

    assert baseline_for("a", read_all(str(tmp_path / "none"))) is None


def test_a_number_that_was_taken_for_nothing_is_passed_over_and_not_given_again(tmp_path: Path) -> None:
    from components.registry.blessed import read_all

    register(str(tmp_path), "a")
    # Killed between the number and the record.
    (tmp_path / "00000002.json").touch()
    assert read_all(str(tmp_path)) == [make("a")]
    register(str(tmp_path), "b")
    assert read_all(str(tmp_path)) == [make("a"), make("b")]
    assert (tmp_path / "00000003.json").exists()


@pytest.mark.parametrize("text", ["{", '{"model_uri": "a"}'])
def test_an_unreadable_entry_is_named(text: str, tmp_path: Path) -> None:
    from components.registry.blessed import read_all
    from schemas.errors import UserError

    (tmp_path / "00000001.json").write_text(text)
    with pytest.raises(UserError, match=r"00000001.json: not a readable record of a blessed model \(got .*restore"):
        read_all(str(tmp_path))


def test_driver_puts_the_baseline_into_the_exec_properties(tmp_path: Path) -> None:
    from tfx.orchestration.portable.data_types import ExecutionInfo
    from tfx.types import standard_artifacts

    from components.evaluator.driver import Driver
    from components.registry.blessed import folder

    def resolved(uri: str) -> str:
        model = standard_artifacts.Model()
        model.uri = uri
        properties = {"pipeline_root": str(tmp_path), "name": "tiny", "gates": json.dumps([])}
        inputs = {"model": [model], "examples": [standard_artifacts.Examples()]}
        output = Driver(None).run(ExecutionInfo(input_dict=inputs, exec_properties=properties))
        assert set(output.exec_properties) == {"pipeline_root", "name", "gates", "baseline_uri"}
        return str(output.exec_properties["baseline_uri"].string_value)

    assert resolved("new") == ""
    register(folder(str(tmp_path), "tiny"), "a", "b")
    assert [resolved("new"), resolved("b"), resolved("a")] == ["b", "a", ""]

"""Which checkpoint an incremental training starts from, and which days it reads."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.registry.versions import withdraw
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from tests.components.logs.sample_logs import INPUTS, ROWS, day_logs, write_days
from tests.components.registry.sample_blessings import blessing
from tests.errors import place_and_value

pytestmark = pytest.mark.slow

DAYS = [f"2024-03-0{day}" for day in range(1, 8)]
DATE = DAYS[-1]


def blessed(root: Path, name: str, *days: str, version: str = "") -> Path:
    """Registers a model of these days, with a checkpoint, and its version if it was pushed."""
    from sangam.components.registry.blessed import record

    checkpoint = root / name
    (checkpoint / "checkpoint").mkdir(parents=True)
    (checkpoint / "checkpoint" / "manifest.json").touch()
    model = blessing(
        f"{name}-model",
        checkpoint_uri=str(checkpoint),
        days=days,
        transform_graph_uri="graph",
        inputs_digest="i",
        pushed=f"serving/{version}" if version else "",
    )
    if version:
        (root / "serving" / version).mkdir(parents=True)
        (root / "serving" / version / "saved_model.pb").write_text(name)
    record(Root(str(root)).blessed("tiny"), model)
    return checkpoint


def properties(root: Path, **settings: Any) -> dict[str, Any]:
    logs = day_logs(train_days=4, **settings.pop("logs", {}))
    return {
        "logs": logs.model_dump_json(),
        "inputs": INPUTS.model_dump_json(),
        "date": DATE,
        "data_root": str(root / "logs"),
        "name": "tiny",
        "mode": "incremental",
        "pipeline_root": str(root),
        "code": "",
    } | settings


def start(root: Path, **settings: Any) -> Any:
    from sangam.components.logs.request import parse
    from sangam.components.steps.example_gen.start import starting_point

    return starting_point(parse(properties(root, **settings), datetime.date(2024, 3, 9)), LocalStorage())


def train_days(root: Path, **settings: Any) -> list[str]:
    from sangam.components.logs.files.resolve import resolve

    logs = day_logs(train_days=4, **settings.get("logs", {}))
    after = start(root, **settings).after
    return resolve(logs, DATE, str(root / "logs"), LocalStorage(), after=after).days()["train"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_days(tmp_path / "logs", "parquet", dict.fromkeys(DAYS, ROWS))
    return tmp_path


def test_a_first_run_trains_on_the_whole_window_and_says_so(root: Path) -> None:
    found = start(root)
    assert found.base is None
    [note] = found.notes
    assert "no blessed checkpoint" in note
    assert "2024-03-06" in note
    assert train_days(root) == DAYS[2:6]


def test_only_the_days_after_the_base_are_trained_on(root: Path) -> None:
    checkpoint = blessed(root, "base", *DAYS[:4])
    found = start(root)
    assert found.base.checkpoint_uri == str(checkpoint)
    assert found.notes == ()
    assert train_days(root) == DAYS[4:6]


def test_the_base_is_the_one_that_has_come_furthest_and_leaves_something_to_learn(root: Path) -> None:
    blessed(root, "before", *DAYS[:4])
    blessed(root, "best", *DAYS[:5])
    blessed(root, "rerun_of_an_old_day", *DAYS[:3])
    blessed(root, "knows_all", *DAYS[:6])
    blessed(root, "knows_the_evaluation_day", *DAYS)
    assert start(root).base.checkpoint_uri == str(root / "best")
    assert train_days(root) == DAYS[5:6]


def test_validation_days_are_trained_on_once_they_are_no_longer_the_newest(root: Path) -> None:
    logs = {"validation_days": 1}
    blessed(root, "validated_on_the_fifth", *DAYS[:4])
    blessed(root, "without_validation_days", *DAYS[:5])
    assert start(root, logs=logs).base.checkpoint_uri == str(root / "validated_on_the_fifth")
    assert train_days(root, logs=logs) == DAYS[4:5]


def test_of_equally_new_ones_the_last_blessed_is_the_base(root: Path) -> None:
    for name in ("first", "second"):
        blessed(root, name, *DAYS[:4])
    assert start(root).base.checkpoint_uri == str(root / "second")


def test_after_a_rollback_the_day_before_is_the_base_and_the_next_day_learns_both(root: Path) -> None:
    before = blessed(root, "before", *DAYS[:4], version="20240305001")
    blessed(root, "withdrawn", *DAYS[:5], version="20240306001")
    assert train_days(root) == DAYS[5:6]
    withdraw(root / "serving", because="likes fell", now=datetime.datetime(2024, 3, 6, tzinfo=datetime.UTC))
    found = json.loads(driven(root)["start"])
    assert found["base"]["checkpoint_uri"] == str(before)
    [note] = found["notes"]
    assert "2024-03-05" in note
    assert "rolled back (serving/20240306001)" in note
    assert train_days(root) == DAYS[4:6]


def test_training_of_mode_full_looks_for_no_base(root: Path) -> None:
    blessed(root, "base", *DAYS[:4])
    assert start(root, mode="full").base is None
    assert train_days(root, mode="full") == DAYS[2:6]


def test_a_checkpoint_that_is_gone_is_passed_over_and_told(root: Path) -> None:
    blessed(root, "kept", *DAYS[:3])
    gone = blessed(root, "gone", *DAYS[:4])
    # Half removed, or half written: what vouches for a checkpoint is its manifest.
    (gone / "checkpoint" / "manifest.json").unlink()
    found = start(root)
    assert found.base.checkpoint_uri == str(root / "kept")
    [note] = found.notes
    assert f"{gone} of 2024-03-04" in note


def test_days_between_the_base_and_the_window_are_told(root: Path) -> None:
    blessed(root, "base", "2024-02-20", "2024-02-21")
    assert train_days(root) == DAYS[2:6]
    [note] = start(root).notes
    assert note.startswith("2024-02-22 to 2024-03-02 were not trained on")
    assert "(data.train_days)" in note


def test_days_that_came_late_are_told(root: Path) -> None:
    blessed(root, "base", DAYS[1], DAYS[3])
    assert train_days(root) == DAYS[4:6]
    [note] = start(root).notes
    assert note.startswith("2024-03-03 ")
    assert "mode: full" in note


def test_a_base_that_knows_the_last_day_with_logs_leaves_nothing_to_learn_and_is_none(root: Path) -> None:
    (root / "logs" / DAYS[5] / "part-0.parquet").unlink()
    blessed(root, "before", *DAYS[:3])
    blessed(root, "knows_all", *DAYS[:5])
    skip = {"logs": {"missing_days": "skip"}}
    assert start(root, **skip).base.checkpoint_uri == str(root / "before")
    assert train_days(root, **skip) == DAYS[3:5]


def test_days_before_the_base_may_be_gone(root: Path) -> None:
    for day in DAYS[:4]:
        (root / "logs" / day / "part-0.parquet").unlink()
    blessed(root, "base", *DAYS[:4])
    assert train_days(root) == DAYS[4:6]
    with pytest.raises(UserError, match=place_and_value("data.pattern: ...", "(got none for 2024-03-03, 2024-03-04)")):
        train_days(root, mode="full")


def driven(root: Path) -> dict[str, str]:
    from tfx.orchestration.portable.data_types import ExecutionInfo

    from sangam.components.steps.example_gen.driver import Driver

    output = Driver(None).run(ExecutionInfo(exec_properties=properties(root)))
    return {name: value.string_value for name, value in output.exec_properties.items()}


def test_the_driver_makes_the_base_part_of_the_cache_key(root: Path) -> None:
    first = driven(root)
    blessed(root, "base", *DAYS[:4])
    second = driven(root)
    assert json.loads(first["start"])["base"] is None
    assert json.loads(second["start"])["base"]["checkpoint_uri"] == str(root / "base")
    blessed(root, "of_this_very_run", *DAYS[:6])
    assert driven(root) == second


@pytest.mark.parametrize("has_driver", [True, False])
def test_the_artifact_and_its_report_name_the_base(root: Path, has_driver: bool) -> None:
    from tfx.types import standard_artifacts

    from sangam.components.reports.artifact_files import read_ingestion
    from sangam.components.steps.example_gen.executor import Executor
    from tests.beam_args import BEAM_ARGS

    blessed(root, "base", *DAYS[:4])
    given = driven(root) if has_driver else properties(root)
    blessed(root, "after_the_driver", *DAYS[:5])
    examples = standard_artifacts.Examples()
    examples.uri = str(root / "examples")
    Executor(Executor.Context(beam_pipeline_args=list(BEAM_ARGS))).Do({}, {"examples": [examples]}, given)
    report = read_ingestion(examples.uri)
    assert report.base
    name = "base" if has_driver else "after_the_driver"
    assert report.base.checkpoint_uri == str(root / name) == examples.get_string_custom_property("base")
    assert report.days == {"train": DAYS[4 if has_driver else 5 : 6], "eval": [DATE]}
    assert json.loads(examples.get_string_custom_property("base_days")) == list(report.base.days)

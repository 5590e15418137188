"""The compiled KFP pipeline: what is in the file, and that it runs, task by task."""

import datetime
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.kubeflow import Target, compile_pipeline, finish, write_compiled
from pipelines.synthetic import generate
from schemas.loading import load_spec
from tests.golden_files import check_golden
from tests.pipelines.compiled_pipeline import parameter_values, run_compiled, substituted, task_order

pytestmark = pytest.mark.slow

SPECS = Path(__file__).parents[2] / "pipelines" / "specs"
TARGET = Target("image:1", "trainer-image:1", pipeline_root="/root", data_root="/data", date="2024-03-07")
DAYS, ROWS_PER_DAY = 4, 400


def compiled(name: str) -> tuple[str, Any]:
    text = compile_pipeline(load_spec(SPECS / f"{name}.yaml"), TARGET)
    return text, yaml.safe_load(text)


def without_source_digests(text: str) -> str:
    """Returns the text with the digests of source code replaced: they change with every edit of a component."""
    text = re.sub(r"(\bcode:\n +runtimeValue:\n +constant: )[0-9a-f]{64}\b", r"\1<digest>", text)
    return re.sub(r'("code": ")[0-9a-f]{64}"', r'\1<digest>"', text)


@pytest.mark.parametrize("name", ["short_video", "online_retail"])
def test_the_compiled_pipeline_is_as_the_golden_file_says(name: str) -> None:
    text, _ = compiled(name)
    check_golden(f"{name}.pipeline.yaml", without_source_digests(text))


def test_date_and_folders_are_parameters_with_defaults() -> None:
    _, ir = compiled("short_video")
    parameters = ir["root"]["inputDefinitions"]["parameters"]
    defaults = {name: declared["defaultValue"] for name, declared in parameters.items()}
    assert defaults == {"date": "2024-03-07", "data_root": "/data", "pipeline_root": "/root"}


def test_logs_without_dates_take_no_date() -> None:
    _, ir = compiled("census_income")
    assert set(ir["root"]["inputDefinitions"]["parameters"]) == {"data_root", "pipeline_root"}


def test_every_container_has_its_image_and_environment() -> None:
    _, ir = compiled("short_video")
    containers = {label: executor["container"] for label, executor in ir["deploymentSpec"]["executors"].items()}
    assert len(containers) == 9
    for label, container in containers.items():
        assert container["image"] == ("trainer-image:1" if label == "trainer_executor" else "image:1")
        assert {"name": "TF_USE_LEGACY_KERAS", "value": "1"} in container["env"]


def test_steps_that_read_the_outside_world_are_not_cached() -> None:
    _, ir = compiled("short_video")
    cached = {name for name, task in ir["root"]["dag"]["tasks"].items() if task["cachingOptions"].get("enableCache")}
    assert cached == {"statistics-gen", "schema-gen", "example-validator", "transform", "trainer"}


def test_task_names_are_such_that_argo_takes_them_and_lead_somewhere() -> None:
    _, ir = compiled("short_video")
    order = task_order(ir)
    assert all(re.fullmatch("[a-zA-Z0-9][-a-zA-Z0-9]*", name) for name in order)
    assert sorted(order) == sorted(ir["root"]["dag"]["tasks"])
    assert order.index("example-validator") < order.index("transform") < order.index("trainer")


def test_a_compiled_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_compiled("one", tmp_path / "new" / "pipeline.yaml")
    write_compiled("two", tmp_path / "new" / "pipeline.yaml")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["pipeline.yaml"]
    assert (tmp_path / "new" / "pipeline.yaml").read_text() == "two"


def test_the_command_writes_the_file_and_no_noise(tmp_path: Path) -> None:
    output = tmp_path / "pipeline.yaml"
    command = [sys.executable, "-m", "pipelines.cli", "compile", str(SPECS / "short_video.yaml"), "--image", "image:1"]
    done = subprocess.run(
        [*command, "--output", str(output)], check=True, cwd=SPECS.parents[1], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (f"wrote {output}\n", "")
    assert yaml.safe_load(output.read_text())["schemaVersion"] == "2.1.0"


def test_finish_leaves_its_argument_alone() -> None:
    task = {"taskInfo": {"name": "a_b"}, "dependentTasks": ["c_d"], "cachingOptions": {"enableCache": True}}
    ir = {
        "root": {"dag": {"tasks": {"a_b": task}}, "inputDefinitions": {"parameters": {"p": {}}}},
        "deploymentSpec": {"executors": {"x": {"container": {}}}},
    }
    before = json.dumps(ir)
    assert finish(ir, {"p": "v"})["root"]["dag"]["tasks"]["a-b"]["dependentTasks"] == ["c-d"]
    assert json.dumps(ir) == before


def test_parameters_are_the_given_or_the_default_and_nothing_else() -> None:
    ir = {"root": {"inputDefinitions": {"parameters": {"a": {"defaultValue": "1"}, "b": {}}}}}
    assert parameter_values(ir, {"b": "2"}) == {"a": "1", "b": "2"}
    with pytest.raises(ValueError, match=r"parameters without a value: \['b'\]"):
        parameter_values(ir, {})
    with pytest.raises(ValueError, match=r"unknown parameters \['c'\]"):
        parameter_values(ir, {"b": "2", "c": "3"})


def test_placeholders_in_commands_are_filled_in() -> None:
    executor_input = {
        "inputs": {"parameterValues": {"p": 3}, "artifacts": {"m": {"artifacts": [{"uri": "/m"}]}}},
        "outputs": {"artifacts": {}},
    }
    assert substituted("{{$}}", executor_input) == json.dumps(executor_input)
    assert substituted("--p={{$.inputs.parameters['p']}}", executor_input) == "--p=3"
    assert substituted("{{$.inputs.artifacts['m'].uri}}/x", executor_input) == "/m/x"


@pytest.mark.e2e
@pytest.mark.timeout(900)
def test_the_compiled_file_runs_to_a_pushed_model(tmp_path: Path) -> None:
    generate(
        tmp_path / "data",
        first_day=datetime.date(2024, 3, 4),
        num_days=DAYS,
        rows_per_day=ROWS_PER_DAY,
        num_users=40,
        num_posts=80,
        seed=1,
    )
    text = (SPECS / "short_video.yaml").read_text()
    small = re.sub(r"at_least: [0-9.]+", "at_least: 0.0", text).replace("train_days: 6", f"train_days: {DAYS - 1}")
    (tmp_path / "small.yaml").write_text(small.replace("batch_size_per_rank: 512", "batch_size_per_rank: 64"))
    target = Target("image:1", "", pipeline_root=str(tmp_path / "root"), data_root="/nowhere", date="2024-03-01")
    write_compiled(compile_pipeline(load_spec(tmp_path / "small.yaml"), target), tmp_path / "pipeline.yaml")
    produced = run_compiled(
        tmp_path / "pipeline.yaml",
        tmp_path / "artifacts",
        {"date": "2024-03-07", "data_root": str(tmp_path / "data")},
    )
    properties = produced["pusher"]["pushed_model"]["metadata"]
    assert properties["pushed"] == 1
    version = Path(properties["path"])
    assert version.is_relative_to(tmp_path / "root" / "serving" / "short_video")
    assert (version / "saved_model.pb").is_file()
    manifest = json.loads((version / "manifest.json").read_text())
    assert manifest["days"]["eval"] == ["2024-03-07"]

"""`cluster.share_processes`: several steps as one task of the compiled file."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.kfp_entrypoint.invocation import EXECUTORS
from sangam.components.kfp_entrypoint.members import MEMBERS, parse_members
from sangam.pipelines.kubeflow.compile import compile_pipeline
from sangam.pipelines.kubeflow.steps import UNCACHED
from sangam.schemas.derived.sharing import groups
from sangam.schemas.derived.timeouts import timeout_s
from tests.pipelines.kubeflow.compiled_files import TARGET, changed_spec
from tests.pipelines.kubeflow.fake_backend import (
    Compiled,
    RecordingBackend,
    read_compiled,
    run_compiled,
    task_of,
    task_order,
)
from tests.pipelines.kubeflow.test_compile import read_pipeline_spec

pytestmark = pytest.mark.slow


GROUPS = [["schema_gen", "statistics_gen", "example_validator"], ["infra_validator", "pusher", "reporter"]]
WHOLE = [
    ["schema_gen", "statistics_gen", "example_validator", "transform"],
    ["evaluator", "infra_validator", "pusher", "reporter"],
]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, WHOLE),
        ({"cluster": {"share_processes": []}}, []),
        # Settings and engines of their own take a step out of its group.
        ({"cluster": {"steps": {"transform": {"memory": "9GiB"}}}}, [WHOLE[0][:3], WHOLE[1]]),
        ({"cluster": {"steps": {"infra_validator": {"cpu": "3"}}}}, [WHOLE[0], WHOLE[1][2:]]),
        (
            {"beam": {"runner": "flink", "master": "f:1", "steps": {"transform": {"runner": "local"}}}},
            [WHOLE[0][:3], WHOLE[1]],
        ),
    ],
)
def test_small_steps_share_a_process_where_their_settings_agree(
    tmp_path: Path, changes: dict[str, Any], found: list[list[str]]
) -> None:
    spec = changed_spec(tmp_path, "short_video", {"cluster": {"steps": None}, **changes})
    assert [list(group) for group in groups(spec)] == found
    # Each step has its time, one after the other.
    assert timeout_s(spec, "reporter") == spec.cluster.default.timeout_s * len(found[-1] if found else ["reporter"])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    spec = changed_spec(folder, "short_video", {"cluster": {"share_processes": GROUPS}})
    path = folder / "short_video.pipeline.yaml"
    path.write_text(compile_pipeline(spec, TARGET))
    return path


@pytest.fixture(scope="module")
def compiled(file: Path) -> Compiled:
    return read_compiled(file.read_text())


def test_a_group_is_one_task_with_the_name_of_its_last_step(compiled: Compiled) -> None:
    order = task_order(compiled.ir)
    assert sorted(order) == ["evaluator", "example-gen", "example-validator", "reporter", "trainer", "transform"]
    assert order.index("example-validator") < order.index("transform") < order.index("trainer")
    read_pipeline_spec(compiled.ir)
    executors = {task_of(compiled, name).component["executorLabel"] for name in order}
    assert set(compiled.ir["deploymentSpec"]["executors"]) == set(compiled.platform) == executors


def test_a_group_is_cached_as_its_steps_are(compiled: Compiled) -> None:
    assert task_of(compiled, "example-validator").spec["cachingOptions"] == {"enableCache": True}
    assert task_of(compiled, "reporter").spec["cachingOptions"] == {}
    assert all(not set(group) & UNCACHED or set(group) <= UNCACHED for group in GROUPS)


def test_a_groups_steps_come_in_order_and_take_each_others_outputs(compiled: Compiled) -> None:
    arguments = task_of(compiled, "example-validator").container["args"]
    assert arguments[:3] == ["python", "-m", EXECUTORS]
    members = parse_members(arguments[arguments.index(MEMBERS) + 1])
    assert [member.step for member in members] == GROUPS[0]
    assert [member.made_before for member in members] == [
        {},
        {"schema": "schema_gen__schema"},
        {"schema": "schema_gen__schema", "statistics": "statistics_gen__statistics"},
    ]
    outputs = task_of(compiled, "example-validator").component["outputDefinitions"]["artifacts"]
    assert set(outputs) == {"schema_gen__schema", "statistics_gen__statistics", "example_validator__anomalies"}
    inputs = task_of(compiled, "example-validator").spec["inputs"]["artifacts"]
    assert {key: source["taskOutputArtifact"]["producerTask"] for key, source in inputs.items()} == {
        "statistics_gen__examples": "example-gen"
    }


def test_later_tasks_take_the_outputs_from_the_group(file: Path, tmp_path: Path) -> None:
    backend = RecordingBackend(tmp_path, run_id="r", created="2024-03-08T00:10:00Z")
    produced = run_compiled(file, {"pipeline_root": "/sangam/root"}, backend)
    command = backend.commands["transform"]
    given = json.loads(command[command.index("--json_serialized_invocation_args") + 1])
    [schema] = given["inputs"]["artifacts"]["schema"]["artifacts"]
    assert schema["uri"] == produced["example-validator"]["schema_gen__schema"]["uri"]

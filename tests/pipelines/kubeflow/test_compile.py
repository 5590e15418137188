"""The compiled pipeline: what is in the file."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from sangam.pipelines.kubeflow.compile import compile_pipeline
from sangam.pipelines.kubeflow.writing import write_compiled
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.beam import BeamStepName
from sangam.schemas.spec.cluster import Launch
from tests.golden_files import check_golden
from tests.paths import SPECS
from tests.pipelines.kubeflow.compiled_files import HOOK, IMAGE, TARGET, TRAINER_IMAGE, changed_spec
from tests.pipelines.kubeflow.fake_backend import (
    Compiled,
    parameter_values,
    read_compiled,
    substituted,
    task_of,
    task_order,
)
from tests.pipelines.kubeflow.platform_messages import read_executor_config

pytestmark = pytest.mark.slow

APART: dict[str, Any] = {"share_processes": []}
DIGEST = f"registry.example/gpu@sha256:{'a' * 64}"
EVERYTHING = {
    **APART,
    "default": {
        "cpu": "500m",
        "memory": "1.5GB",
        "timeout_s": 600,
        "retries": {"count": 1, "backoff_s": 30},
        "secrets": HOOK,
    },
    "steps": {
        "trainer": {
            "cpu": "8",
            "memory": "64GiB",
            "gpu": {"count": 2},
            "node_pool": {"pool": "gpu"},
            "tolerations": [
                {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
                {"key": "team", "operator": "Equal", "value": "ranking"},
            ],
            "env": {"NCCL_DEBUG": "WARN"},
            "secrets": {
                "STORE_KEY": {"secret": "store", "key": "key"},
                "STORE_ID": {"secret": "store", "key": "id"},
                **HOOK,
            },
            "shared_memory": "8GiB",
            "image": DIGEST,
            "timeout_s": 30000,
            "retries": {"count": 3, "backoff_s": 60, "factor": 2, "max_backoff_s": 600},
        },
        "transform": {"cache": False, "retries": {"count": 0}},
    },
}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """A spec that declares all there is for a step."""
    spec = changed_spec(tmp_path_factory.mktemp("spec"), "short_video", {"cluster": EVERYTHING, "alerts": {}})
    return read_compiled(compile_pipeline(spec, TARGET))


@pytest.fixture(scope="module")
def short_video() -> Compiled:
    """The reference spec, each step a task."""
    return alone("short_video")


def alone(name: str) -> Compiled:
    """Compiles a reference spec whose steps share no process."""
    spec = load_spec(SPECS / f"{name}.yaml")
    changed = {"cluster": spec.cluster.model_copy(update={"share_processes": ()})}
    return read_compiled(compile_pipeline(spec.model_copy(update=changed), TARGET))


def without_source_digests(text: str) -> str:
    """Returns the text with the digests of source code, of shared steps too, replaced: they change with every edit."""
    text = re.sub(r"((?:\b|__)code:\n +runtimeValue:\n +constant: )[0-9a-f]{64}\b", r"\1<digest>", text)
    return re.sub(r'("code": ")[0-9a-f]{64}"', r'\1<digest>"', text)


@pytest.mark.parametrize("name", ["short_video", "online_retail"])
def test_the_compiled_pipeline_is_as_the_golden_file_says(name: str) -> None:
    text = compile_pipeline(load_spec(SPECS / f"{name}.yaml"), TARGET)
    check_golden(f"{name}.pipeline.yaml", without_source_digests(text))


def read_pipeline_spec(ir: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the message, and the one that it holds untyped; both refuse fields that they do not know."""
    deployment = json_format.ParseDict(ir["deploymentSpec"], pipeline_spec_pb2.PipelineDeploymentConfig())
    return json_format.ParseDict(ir, pipeline_spec_pb2.PipelineSpec()), deployment


def test_the_first_document_is_a_pipeline_spec_without_unknown_fields(everything: Compiled) -> None:
    spec, _ = read_pipeline_spec(everything.ir)
    assert spec.schema_version == "2.1.0"
    policy = spec.root.dag.tasks["trainer"].retry_policy
    assert (policy.max_retry_count, policy.backoff_duration.seconds, policy.backoff_factor) == (3, 1, 1.0)


@pytest.mark.parametrize(
    ("place", "mistake"),
    [
        (("root", "dag", "tasks", "trainer", "retryPolicy"), {"maxRetryCounts": 3}),
        (("root", "dag", "tasks", "trainer", "retryPolicy"), {"backoffDuration": "60"}),
        (("deploymentSpec",), {"executor": {}}),
    ],
)
def test_a_mistake_in_the_first_document_is_found(
    everything: Compiled, place: tuple[str, ...], mistake: dict[str, Any]
) -> None:
    wrong = json.loads(json.dumps(everything.ir))
    part = wrong
    for key in place:
        part = part[key]
    part.update(mistake)
    with pytest.raises(json_format.ParseError):
        read_pipeline_spec(wrong)


def test_the_containers_are_as_the_backend_reads_them(everything: Compiled) -> None:
    _, config = read_pipeline_spec(everything.ir)
    trainer = config.executors["trainer_executor"].container
    assert trainer.image == DIGEST
    assert (trainer.resources.cpu_limit, trainer.resources.memory_limit * 1e9) == (8.0, 64 * 1024**3)
    assert (trainer.resources.accelerator.type, trainer.resources.accelerator.count) == ("nvidia.com/gpu", 2)
    variables = {variable.name: variable.value for variable in trainer.env}
    assert variables == {"NCCL_DEBUG": "WARN", "TF_USE_LEGACY_KERAS": "1"}
    pusher = config.executors["pusher_executor"].container
    assert (pusher.image, pusher.resources.cpu_limit, pusher.resources.memory_limit) == (IMAGE, 0.5, 1.5)
    assert not pusher.resources.HasField("accelerator")


def test_the_second_document_has_what_kubernetes_alone_knows(everything: Compiled) -> None:
    assert set(everything.platform) == set(everything.ir["deploymentSpec"]["executors"])
    trainer = read_executor_config(everything.platform["trainer_executor"])
    assert trainer.active_deadline_seconds == 4 * (30000 + 60) + 60 + 120 + 240
    assert dict(trainer.node_selector.labels) == {"pool": "gpu"}
    assert [(t.key, t.operator, t.value, t.effect) for t in trainer.tolerations] == [
        ("nvidia.com/gpu", "Exists", "", "NoSchedule"),
        ("team", "Equal", "ranking", ""),
    ]
    named = trainer.secret_as_env
    secrets = {each.secret_name: {key.env_var: key.secret_key for key in each.key_to_env} for each in named}
    assert secrets == {
        "sangam-alerts": {"SANGAM_ALERT_URL": "url", "SANGAM_ALERT_KEY": "key"},
        "store": {"STORE_ID": "id", "STORE_KEY": "key"},
    }
    assert [(mount.constant, mount.mount_path) for mount in trainer.pvc_mount] == [
        ("sangam-root", "/sangam/root"),
        ("sangam-data", "/sangam/data"),
    ]
    (memory,) = trainer.empty_dir_mounts
    assert (memory.mount_path, memory.medium, memory.size_limit) == ("/dev/shm", "Memory", str(8 * 1024**3))
    pusher = read_executor_config(everything.platform["pusher_executor"])
    assert (pusher.active_deadline_seconds, len(pusher.pvc_mount), len(pusher.tolerations)) == (2 * 660 + 30, 2, 0)


@pytest.mark.parametrize(
    "mistake",
    [
        {"pvcMounts": []},
        {"tolerations": [{"key": "spot", "tolerationSecond": 3}]},
        {"activeDeadlineSeconds": "an hour"},
        {"nodeSelector": {"label": {"pool": "gpu"}}},
    ],
)
def test_a_mistake_in_the_second_document_is_found(everything: Compiled, mistake: dict[str, Any]) -> None:
    with pytest.raises(json_format.ParseError):
        read_executor_config({**everything.platform["trainer_executor"], **mistake})


def test_a_step_without_secrets_has_none(short_video: Compiled) -> None:
    assert "secretAsEnv" not in short_video.platform["pusher_executor"]


def test_vertex_ais_file_is_a_pipeline_job_of_one_document(tmp_path: Path) -> None:
    trainer = {"cpu": "8", "gpu": {"type": "NVIDIA_TESLA_V100"}}
    cluster = {"default": None, "volumes": None, "steps": {"trainer": trainer}}
    target = dataclasses.replace(TARGET, flavour="vertex", pipeline_root="gs://bucket/r", data_root="gs://bucket/in")
    text = compile_pipeline(changed_spec(tmp_path, "short_video", {"cluster": cluster}), target)
    job = json_format.ParseDict(json.loads(text), pipeline_spec_pb2.PipelineJob())
    assert job.runtime_config.gcs_output_directory == "gs://bucket/r/artifacts"
    _, deployment = read_pipeline_spec(json.loads(text)["pipelineSpec"])
    accelerator = deployment.executors["trainer_executor"].container.resources.accelerator
    assert (accelerator.type, accelerator.count) == ("NVIDIA_TESLA_V100", 1)
    parameters = json.loads(text)["pipelineSpec"]["root"]["inputDefinitions"]["parameters"]
    assert parameters["pipeline_root"]["defaultValue"] == "/gcs/bucket/r"


def test_a_pod_lasts_for_all_tries_of_its_step_and_a_lost_one_is_replaced_at_once(everything: Compiled) -> None:
    tasks = everything.ir["root"]["dag"]["tasks"]
    whole = 4 * (30000 + 60) + 60 + 120 + 240
    assert task_of(everything, "trainer").platform["activeDeadlineSeconds"] == whole
    assert tasks["trainer"]["retryPolicy"] == {
        "maxRetryCount": 3,
        "backoffDuration": "1s",
        "backoffFactor": 1.0,
        "backoffMaxDuration": f"{4 * whole}s",
    }
    assert tasks["pusher"]["retryPolicy"]["backoffMaxDuration"] == f"{2 * (2 * (600 + 60) + 30)}s"
    assert "retryPolicy" not in tasks["transform"]


def test_date_and_folders_are_parameters_with_defaults(short_video: Compiled) -> None:
    parameters = short_video.ir["root"]["inputDefinitions"]["parameters"]
    defaults = {name: declared["defaultValue"] for name, declared in parameters.items()}
    assert defaults == {"date": "2024-03-07", "data_root": "/sangam/data", "pipeline_root": "/sangam/root"}


def test_logs_without_dates_take_no_date() -> None:
    census = alone("census_income")
    assert set(census.ir["root"]["inputDefinitions"]["parameters"]) == {"data_root", "pipeline_root"}
    parameters = census.ir["components"]["example_gen"]["inputDefinitions"]["parameters"]
    assert {"sangam_root"} == {name for name in parameters if name.startswith("sangam_")}


def test_a_serving_check_that_judges_skew_gets_the_date_and_the_logs(tmp_path: Path, short_video: Compiled) -> None:
    gates = [{"task": "like", "metric": "auc", "at_least": 0.6}, {"skew": "scores", "at_most": 0, "log": "requests"}]
    spec = changed_spec(tmp_path, "short_video", {"gates": gates, "cluster": APART})
    judging = read_compiled(compile_pipeline(spec, TARGET))
    mine, other = (each.ir["components"]["infra_validator"]["inputDefinitions"] for each in (judging, short_video))
    added = mine["parameters"].keys() - other["parameters"].keys()
    assert added == {"skew", "date", "data_root", "sangam_created"}
    given = judging.ir["root"]["dag"]["tasks"]["infra-validator"]["inputs"]["parameters"]
    assert {given[name]["componentInputParameter"] for name in ("date", "data_root")} == {"date", "data_root"}


def test_every_step_starts_through_the_entry_point_and_is_told_of_the_root(everything: Compiled) -> None:
    tasks = everything.ir["root"]["dag"]["tasks"]
    assert len(tasks) == 10
    for name in tasks:
        task = task_of(everything, name)
        command, arguments = task.container["command"], task.container["args"]
        assert command[:3] == ["python", "-m", "sangam.components.kfp_entrypoint"]
        assert command[command.index("--step") + 1] == name.replace("-", "_")
        assert json.loads(command[command.index("--alerts") + 1])["url_env"] == "SANGAM_ALERT_URL"
        assert command[-1] == "--"
        assert arguments[:2] == ["python", "-m"]
        assert arguments[2] == "sangam.components.kfp_entrypoint.executors"
        assert task.spec["inputs"]["parameters"]["sangam_root"] == {"componentInputParameter": "pipeline_root"}
        assert task.component["inputDefinitions"]["parameters"]["sangam_root"] == {"parameterType": "STRING"}
    command = tasks_command(everything, "trainer")
    assert json.loads(command[command.index("--retries") + 1])["count"] == 3
    assert command[command.index("--timeout-s") + 1] == "30000"


def tasks_command(file: Compiled, task: str) -> list[str]:
    """Returns the command of a task's container."""
    return list(task_of(file, task).container["command"])


def test_the_images_are_those_given_and_a_steps_own(short_video: Compiled) -> None:
    images = {name: task_of(short_video, name).container["image"] for name in short_video.ir["root"]["dag"]["tasks"]}
    assert {name: image for name, image in images.items() if image != IMAGE} == {"trainer": TRAINER_IMAGE}


def test_steps_that_read_the_outside_world_are_not_cached(short_video: Compiled, everything: Compiled) -> None:
    assert cached(short_video) == {"statistics-gen", "schema-gen", "example-validator", "transform", "trainer"}
    assert cached(everything) == {"statistics-gen", "schema-gen", "example-validator", "trainer"}


def cached(file: Compiled) -> set[str]:
    """Returns the tasks whose results Kubeflow may repeat."""
    tasks = file.ir["root"]["dag"]["tasks"]
    return {name for name, task in tasks.items() if task["cachingOptions"].get("enableCache")}


def test_nothing_that_differs_between_runs_is_a_parameter_of_a_cached_step(short_video: Compiled) -> None:
    for name in cached(short_video):
        constants = [
            source["runtimeValue"]["constant"]
            for source in short_video.ir["root"]["dag"]["tasks"][name]["inputs"]["parameters"].values()
            if "runtimeValue" in source
        ]
        assert not [constant for constant in constants if "{{$" in str(constant)]


def test_task_names_are_such_that_argo_takes_them_and_lead_somewhere(short_video: Compiled) -> None:
    order = task_order(short_video.ir)
    assert all(re.fullmatch("[a-zA-Z0-9][-a-zA-Z0-9]*", name) for name in order)
    assert sorted(order) == sorted(short_video.ir["root"]["dag"]["tasks"])
    assert order.index("example-validator") < order.index("transform") < order.index("trainer")


def test_a_training_job_of_several_pods_is_told_its_image_and_volumes(tmp_path: Path) -> None:
    cluster = {"launcher": {"kind": "jobset", "host": {"gpu": {"count": 1}}}, "queue": "team"}
    file = read_compiled(compile_pipeline(changed_spec(tmp_path, "short_video", {"cluster": cluster}), TARGET))
    constant = task_of(file, "trainer").spec["inputs"]["parameters"]["launch"]["runtimeValue"]["constant"]
    launch = Launch.model_validate_json(constant)
    assert (launch.launcher.kind, launch.image, launch.queue) == ("jobset", TRAINER_IMAGE, "team")
    assert launch.volumes["root"].path == "/sangam/root"


def test_a_local_launcher_is_told_nothing(short_video: Compiled) -> None:
    parameters = task_of(short_video, "trainer").spec["inputs"]["parameters"]
    assert parameters["launch"]["runtimeValue"]["constant"] == ""


def test_a_compiled_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_compiled("one", tmp_path / "new" / "pipeline.yaml")
    write_compiled("two", tmp_path / "new" / "pipeline.yaml")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["pipeline.yaml"]
    assert (tmp_path / "new" / "pipeline.yaml").read_text() == "two"


@pytest.mark.long
def test_the_command_writes_the_file_and_no_noise(tmp_path: Path) -> None:
    output, image = tmp_path / "pipeline.yaml", f"image@sha256:{64 * '0'}"
    command = [
        sys.executable,
        "-m",
        "sangam.pipelines.cli",
        "compile",
        str(SPECS / "short_video.yaml"),
        "--image",
        image,
    ]
    done = subprocess.run(
        [*command, "--output", str(output)], check=True, cwd=SPECS.parents[1], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (f"wrote {output}\n", "")
    ir, platform = yaml.safe_load_all(output.read_text())
    assert ir["schemaVersion"] == "2.1.0"
    assert set(platform) == {"platforms"}


def test_parameters_are_the_given_or_the_default_and_nothing_else() -> None:
    ir = {"root": {"inputDefinitions": {"parameters": {"a": {"defaultValue": "1"}, "b": {}}}}}
    assert parameter_values(ir, {"b": "2"}) == {"a": "1", "b": "2"}
    with pytest.raises(ValueError, match=r"\['b'\]"):
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


def test_no_step_lets_beam_choose_a_runner_that_is_downloaded(everything: Compiled) -> None:
    """Beam's own choice, Prism, is a binary that each pod would fetch from elsewhere (tests/pipelines/test_beam.py)."""
    executors = everything.ir["deploymentSpec"]["executors"]
    assert len(executors) == 10
    for label, executor in executors.items():
        arguments = [word for word in executor["container"]["args"] if word.startswith("--runner")]
        is_beam = label.removesuffix("_executor") in get_args(BeamStepName)
        assert arguments == (["--runner=FnApiRunner"] if is_beam else []), label


def test_each_step_has_the_arguments_of_its_engine(tmp_path: Path) -> None:
    beam = {
        "runner": "flink", "master": "flink:8081", "parallelism": 4,
        "steps": {"evaluator": {"runner": "portable", "job_endpoint": "jobs:8099"}, "transform": {"runner": "local"}},
    }  # fmt: skip
    executors = read_compiled(
        compile_pipeline(changed_spec(tmp_path, "short_video", {"beam": beam, "cluster": APART}), TARGET)
    ).ir["deploymentSpec"]["executors"]
    runners = {
        label: [word for word in executor["container"]["args"] if word.startswith(("--runner", "--flink_m", "--job_e"))]
        for label, executor in executors.items()
    }
    assert runners["example_gen_executor"] == ["--runner=FlinkRunner", "--flink_master=flink:8081"]
    assert runners["statistics_gen_executor"] == runners["example_gen_executor"]
    assert runners["transform_executor"] == ["--runner=FnApiRunner"]
    assert runners["evaluator_executor"] == ["--runner=PortableRunner", "--job_endpoint=jobs:8099"]
    assert runners["trainer_executor"] == []


def test_a_step_that_declares_no_timeout_has_one(tmp_path: Path) -> None:
    spec = changed_spec(tmp_path, "short_video", {"cluster": {**APART, "default": None, "steps": None}})
    platform = read_compiled(compile_pipeline(spec, TARGET)).platform
    deadlines = {label: executor["activeDeadlineSeconds"] for label, executor in platform.items()}
    waits = 60 + 120
    assert deadlines.pop("trainer_executor") == 3 * (25200 + 60) + waits
    assert len(deadlines) == 9
    assert set(deadlines.values()) == {3 * (21600 + 60) + waits}

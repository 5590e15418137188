"""The section `cluster` and its neighbors: mistakes are found, steps inherit, and placement trains nothing again."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from sangam.schemas.spec import RankerSpec, Spec, digest
from sangam.schemas.spec.alerts import Alerts
from sangam.schemas.spec.cluster import (
    Cluster,
    Gpu,
    Launch,
    LocalLauncher,
    MpiJobLauncher,
    Pod,
    Retries,
    Step,
    StepName,
    Toleration,
    Volume,
)
from sangam.schemas.spec.data import DayLogs
from tests.errors import tells
from tests.paths import REPOSITORY
from tests.schemas.sample_specs import changed, loaded, write

Case = tuple[dict[str, Any], str, str]
VOLUMES = {"runs": {"claim": "sangam", "path": "/sangam"}}
MPI = {"kind": "mpijob"}
JOINED = {"address": "pool:5050"}
ARRIVAL = {"marker": "{YYYY}-{MM}-{DD}/_SUCCESS"}


def cluster(**fields: Any) -> dict[str, Any]:
    return {"cluster": fields}


SHAPES: list[Case] = [
    (cluster(default={"cpu": "2 cores"}), "cluster.default.cpu", "(got '2 cores')"),
    (cluster(default={"cpu": 2}), "cluster.default.cpu", "(got 2)"),
    (cluster(default={"memory": "8"}), "cluster.default.memory", "(got '8')"),
    (cluster(default={"gpu": {"count": 0}}), "cluster.default.gpu.count", "(got 0)"),
    (cluster(default={"gpu": {"type": "a/b/c"}}), "cluster.default.gpu.type", "(got 'a/b/c')"),
    (cluster(default={"node_pool": {"-": "x"}}), "cluster.default.node_pool.-", "(got '-')"),
    (cluster(default={"node_pool": {"a": "x y"}}), "cluster.default.node_pool.a", "(got 'x y')"),
    (
        cluster(default={"tolerations": [{"key": "spot", "operator": "Is"}]}),
        "cluster.default.tolerations[0].operator",
        "(got 'Is') ... 'Exists', 'Equal'",
    ),
    (cluster(default={"env": {"A-B": "x"}}), "cluster.default.env.A-B", "(got 'A-B')"),
    (
        cluster(default={"secrets": {"A": "plain"}}),
        "cluster.default.secrets.A",
        "(got 'plain')",
    ),
    (
        cluster(default={"secrets": {"A": {"secret": "s", "key": ".."}}}),
        "cluster.default.secrets.A.key",
        "(got '..')",
    ),
    (cluster(default={"image": "a b"}), "cluster.default.image", "(got 'a b')"),
    (cluster(default={"timeout_s": 0}), "cluster.default.timeout_s", "(got 0)"),
    (cluster(default={"retries": {"factor": 0.5}}), "cluster.default.retries.factor", "(got 0.5)"),
    (cluster(default={"cache": "no"}), "cluster.default.cache", "(got 'no')"),
    (
        cluster(steps={"train": {}}),
        "cluster.steps.train",
        "(got 'train') ... 'example_gen', 'schema_gen'",
    ),
    (
        cluster(volumes={"A": VOLUMES["runs"]}),
        "cluster.volumes.A",
        "(got 'A')",
    ),
    (
        cluster(volumes={"runs": {"claim": "x", "path": "/a/../b"}}),
        "cluster.volumes.runs.path",
        "(got '/a/../b') ... '.', '..'",
    ),
    (
        cluster(volumes={"runs": {"claim": "x", "path": "a"}}),
        "cluster.volumes.runs.path",
        "(got 'a')",
    ),
    (
        cluster(service_account="A"),
        "cluster.service_account",
        "(got 'A')",
    ),
    (
        cluster(launcher={"kind": "ssh"}),
        "cluster.launcher.kind",
        "(got 'ssh') ... 'local', 'mpijob'",
    ),
    (cluster(launcher={"kind": "local", "host": {}}), "cluster.launcher.host", "(got a mapping of none)"),
    (
        cluster(launcher=MPI | {"network_interface": "eth0;x"}, volumes=VOLUMES),
        "cluster.launcher.network_interface",
        "(got 'eth0;x')",
    ),
    (
        {"alerts": {"url": "https://x"}},
        "alerts.url",
        "(got 'https://x') ... 'url_env'",
    ),
    ({"alerts": {"url_env": "https://x"}}, "alerts.url_env", "(got 'https://x')"),
    ({"alerts": {"on": []}}, "alerts.on", "(got []) ... 1"),
    ({"alerts": {"on": ["blessed"]}}, "alerts.on[0]", "(got 'blessed') ... 'failed', 'refused'"),
    ({"alerts": {"timeout_s": 0}}, "alerts.timeout_s", "(got 0)"),
    ({"alerts": {"ui": "sangam.example"}}, "alerts.ui", "(got 'sangam.example')"),
    ({"alerts": {"format": "slack", "key_env": "A"}}, "alerts.key_env", "(got A)"),
    (
        {"alerts": {"not_pushed_for_days": 2}, "push": {"kind": "none"}},
        "alerts.not_pushed_for_days",
        "push.kind none (got 2)",
    ),
    ({"data.arrival": {}}, "data.arrival.marker", "is missing"),
    ({"data.arrival": ARRIVAL | {"wait_s": -1}}, "data.arrival.wait_s", "(got -1)"),
    ({"data.arrival": ARRIVAL | {"poll_s": 0}}, "data.arrival.poll_s", "(got 0)"),
    (
        {"data.arrival": {"marker": "_SUCCESS"}},
        "data.arrival.marker",
        "(got '_SUCCESS')",
    ),
    (
        {"data.arrival": {"marker": "../{YYYY}{MM}{DD}"}},
        "data.arrival.marker",
        "(got '../{YYYY}{MM}{DD}')",
    ),
]

SECRET = {"secret": "s", "key": "k"}
EQUAL = {"key": "spot", "operator": "Equal"}
TWO_GPUS = {"gpu": {"count": 2}}
WHOLE: list[Case] = [
    (
        cluster(deadline_s=60, heartbeat_timeout_s=61),
        "cluster.heartbeat_timeout_s",
        "(got 61) ... deadline_s",
    ),
    (
        cluster(default={"env": {"A": "x"}, "secrets": {"A": SECRET}}),
        "cluster.default.env.A",
        "secrets",
    ),
    *[
        (
            cluster(steps={"pusher": {"env": {name: "hunter2"}}}),
            f"cluster.steps.pusher.env.{name}",
            f"secrets: {{{name}: {{secret: ",
        )
        for name in ("DB_PASSWORD", "TOKEN", "AWS_SECRET_ACCESS_KEY", "API_KEY", "my_apikey", "GCP_CREDENTIALS")
    ],
    (
        cluster(default={"tolerations": [{"key": "a"}, EQUAL]}),
        "cluster.default.tolerations[1].value",
        "(got None)",
    ),
    (
        cluster(default={"tolerations": [{"key": "spot", "value": "x"}]}),
        "cluster.default.tolerations[0].value",
        "(got 'x')",
    ),
    (
        cluster(steps={"trainer": {"retries": {"backoff_s": 60, "max_backoff_s": 59}}}),
        "cluster.steps.trainer.retries.max_backoff_s",
        "(got 59) ... backoff_s",
    ),
    (
        cluster(volumes=VOLUMES | {"more": {"claim": "c", "path": "/sangam/more"}}),
        "cluster.volumes.more.path",
        "(got /sangam/more, /sangam)",
    ),
    (
        cluster(volumes=VOLUMES | {"same": {"claim": "c", "path": "/sangam"}}),
        "cluster.volumes.same.path",
        "(got /sangam, /sangam)",
    ),
    (
        {"data.arrival": ARRIVAL | {"wait_s": 600}} | cluster(steps={"example_gen": {"timeout_s": 600}}),
        "data.arrival.wait_s",
        "(got 600, timeout_s 600)",
    ),
    (
        cluster(ranks=3, launcher=MPI | {"ranks_per_host": 2}, volumes=VOLUMES),
        "cluster.launcher.ranks_per_host",
        "(got 2 for 3)",
    ),
    (
        cluster(ranks=4, launcher=MPI | {"ranks_per_host": 4, "host": TWO_GPUS}, volumes=VOLUMES),
        "cluster.launcher.host.gpu.count",
        "(got 2)",
    ),
    (
        cluster(data_workers=0, launcher=MPI | {"data_worker": {"cpu": "1"}}, volumes=VOLUMES),
        "cluster.launcher.data_worker",
        "(got settings)",
    ),
    (
        cluster(input_service=JOINED, launcher=MPI | {"data_worker": {"cpu": "1"}}, volumes=VOLUMES),
        "cluster.launcher.data_worker",
        "(got settings)",
    ),
    (cluster(input_service={"address": "pool"}), "cluster.input_service.address", "(got 'pool')"),
    (cluster(input_service=JOINED, data_workers=0), "cluster.input_service", "(got pool:5050)"),
    (
        cluster(input_service=JOINED | {"timeout_s": 300}, heartbeat_timeout_s=300),
        "cluster.input_service.timeout_s",
        "(got 300)",
    ),
    (
        cluster(launcher=MPI | {"parameter_server": {"memory": "1GiB"}}, volumes=VOLUMES),
        "cluster.launcher.parameter_server",
        "sync ... (got settings)",
    ),
    (
        cluster(launcher={"kind": "jobset"}),
        "cluster.volumes",
        "(got 0 volumes, none writable, for jobset)",
    ),
    (
        cluster(launcher=MPI, volumes={"logs": {"claim": "l", "path": "/logs", "read_only": True}}),
        "cluster.volumes",
        "(got 1 volumes, none writable, for mpijob)",
    ),
    (
        cluster(launcher=MPI | {"coordinator": {"env": {"A_TOKEN": "hunter2"}}}, volumes=VOLUMES),
        "cluster.launcher.coordinator.env.A_TOKEN",
        "secrets: {A_TOKEN: {secret: ",
    ),
    (
        cluster(launcher=MPI | {"host": {"tolerations": [EQUAL]}}, volumes=VOLUMES),
        "cluster.launcher.host.tolerations[0].value",
        "(got None)",
    ),
]


@pytest.mark.parametrize(("changes", "place", "value"), SHAPES + WHOLE, ids=[place for _, place, _ in SHAPES + WHOLE])
def test_mistake_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], place: str, value: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(changes)))
    assert tells(str(caught.value), place, value), str(caught.value)
    assert len(caught.value.problems) == 1
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        cluster(default={"env": {"TOKENIZER": "x", "KEYBOARD": "y", "SECRETARY": "z"}}),
        cluster(default={"tolerations": [EQUAL | {"value": "x", "effect": "NoSchedule"}, {"key": "a"}]}),
        cluster(volumes=VOLUMES | {"more": {"claim": "c", "path": "/sangam-more"}}),
        cluster(ranks=4, launcher=MPI | {"ranks_per_host": 2, "host": TWO_GPUS}, volumes=VOLUMES),
        cluster(launcher={"kind": "jobset", "network_interface": "net1"}, volumes=VOLUMES),
        cluster(steps={"trainer": {"retries": {"count": 0}, "cache": False, "timeout_s": 60}}, service_account="runs"),
        {"alerts": {}},
        {"alerts": {"url_env": "A", "key_env": "B", "on": ["failed"], "timeout_s": 1}},
        {"data.arrival": ARRIVAL | {"wait_s": 0, "poll_s": 1}},
        {"data.arrival": ARRIVAL | {"wait_s": 600}} | cluster(default={"timeout_s": 601}),
    ],
)
def test_what_is_allowed_loads(tmp_path: Path, changes: dict[str, Any]) -> None:
    spec = loaded(tmp_path, changes)
    assert Spec.model_validate_json(spec.model_dump_json()) == spec


def test_a_step_has_its_own_settings_over_those_of_all(tmp_path: Path) -> None:
    default = {"cpu": "1", "memory": "2GB", "env": {"A": "1"}, "retries": {"count": 5}, "cache": False}
    own = {"trainer": {"cpu": "8", "env": {"B": "2"}, "gpu": {}}, "pusher": {"cache": None}}
    section = loaded(tmp_path, cluster(default=default, steps=own)).cluster
    trainer = section.step("trainer")
    # What a step declares stands alone: a mapping of its own takes the place of the other.
    assert (trainer.cpu, trainer.memory, trainer.env, trainer.gpu) == ("8", "2GB", {"B": "2"}, Gpu())
    assert (trainer.retries, trainer.cache) == (Retries(count=5), False)
    assert section.step("pusher") == section.default.model_copy(update={"cache": None})
    others = set(get_args(StepName)) - set(own)
    assert all(section.step(name) == section.default for name in others)


def test_every_step_of_the_pipeline_can_be_placed() -> None:
    source = (REPOSITORY / "pipelines" / "pipeline.py").read_text()
    assert sorted(re.findall(r'\.with_id\(\s*"(\w+)"', source)) == sorted(get_args(StepName))
    assert source.count(".with_id(") == len(get_args(StepName))


PLACEMENTS: list[dict[str, Any]] = [
    cluster(default={"cpu": "4", "image": "other:1"}),
    cluster(steps={"trainer": {"memory": "64GB", "retries": {"count": 9}}}),
    cluster(volumes=VOLUMES, launcher=MPI | {"host": {"gpu": {"count": 1}}}),
    cluster(service_account="runs"),
    {"alerts": {}},
    {"data.arrival": ARRIVAL},
]


@pytest.mark.parametrize("changes", PLACEMENTS, ids=lambda changes: str(changes)[:50])
def test_placement_alerts_and_arrival_are_no_part_of_the_model(tmp_path: Path, changes: dict[str, Any]) -> None:
    plain = loaded(tmp_path)
    placed = loaded(tmp_path, changes)
    assert digest(placed.ranker()) == digest(plain.ranker())
    assert digest(placed) != digest(plain)
    assert placed.ranker() == plain.ranker()


def test_processes_of_the_training_job_are_part_of_the_model(tmp_path: Path) -> None:
    ranker = loaded(tmp_path, cluster(ranks=4, volumes=VOLUMES, launcher=MPI)).ranker()
    assert digest(ranker) != digest(loaded(tmp_path).ranker())
    assert type(ranker.cluster) is Cluster
    assert set(json.loads(ranker.model_dump_json())["cluster"]) == set(Cluster.model_fields)
    assert RankerSpec.model_validate_json(ranker.model_dump_json()) == ranker


def test_what_is_left_out_is_as_before(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    assert spec.alerts is None
    assert isinstance(spec.data, DayLogs)
    assert spec.data.arrival is None
    assert spec.cluster.launcher == LocalLauncher()
    assert spec.cluster.step("trainer") == Step()
    assert Alerts().on == ("failed", "refused", "warning", "promoted", "dropped")


def test_what_the_trainer_step_is_told_survives_its_json() -> None:
    launch = Launch(
        launcher=MpiJobLauncher(kind="mpijob", host=Pod(gpu=Gpu(), tolerations=(Toleration(key="spot"),))),
        image=f"registry.example/sangam@sha256:{'a' * 64}",
        volumes={"runs": Volume(claim="sangam", path="/sangam")},
    )
    assert Launch.model_validate_json(launch.model_dump_json()) == launch

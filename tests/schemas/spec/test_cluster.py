"""The section `cluster` and its neighbors: mistakes are found, steps inherit, and placement trains nothing again."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from schemas.loading import load_spec
from schemas.problems import SpecError
from schemas.spec import RankerSpec, Spec, digest
from schemas.spec.alerts import Alerts
from schemas.spec.cluster import (
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
from schemas.spec.data import DayLogs
from tests.paths import REPOSITORY
from tests.schemas.sample_specs import changed, loaded, write

Case = tuple[dict[str, Any], str, str]
VOLUMES = {"runs": {"claim": "sangam", "path": "/sangam"}}
MPI = {"kind": "mpijob"}
ARRIVAL = {"marker": "{YYYY}-{MM}-{DD}/_SUCCESS"}


def cluster(**fields: Any) -> dict[str, Any]:
    return {"cluster": fields}


SHAPES: list[Case] = [
    (cluster(default={"cpu": "2 cores"}), "cluster.default.cpu", "not allowed (got '2 cores'); cores, as in \"2\""),
    (cluster(default={"cpu": 2}), "cluster.default.cpu", "not allowed (got 2); a text; put quotes round it"),
    (cluster(default={"memory": "8"}), "cluster.default.memory", "not allowed (got '8'); write a number and its unit"),
    (cluster(default={"gpu": {"count": 0}}), "cluster.default.gpu.count", "not allowed (got 0)"),
    (cluster(default={"gpu": {"type": "a/b/c"}}), "cluster.default.gpu.type", "not allowed (got 'a/b/c'); letters"),
    (cluster(default={"node_pool": {"-": "x"}}), "cluster.default.node_pool.-", "not allowed (got '-'); letters"),
    (cluster(default={"node_pool": {"a": "x y"}}), "cluster.default.node_pool.a", "not allowed (got 'x y'); letters"),
    (
        cluster(default={"tolerations": [{"key": "spot", "operator": "Is"}]}),
        "cluster.default.tolerations[0].operator",
        "not allowed (got 'Is'); one of: 'Exists', 'Equal'",
    ),
    (cluster(default={"env": {"A-B": "x"}}), "cluster.default.env.A-B", "not allowed (got 'A-B'); letters, digits and"),
    (
        cluster(default={"secrets": {"A": "plain"}}),
        "cluster.default.secrets.A",
        "not allowed (got 'plain'); a mapping",
    ),
    (
        cluster(default={"secrets": {"A": {"secret": "s", "key": ".."}}}),
        "cluster.default.secrets.A.key",
        "not allowed (got '..'); must not be '.' nor start with '..'",
    ),
    (cluster(default={"image": "a b"}), "cluster.default.image", "not allowed (got 'a b'); an image as in registry."),
    (cluster(default={"timeout_s": 0}), "cluster.default.timeout_s", "not allowed (got 0)"),
    (cluster(default={"retries": {"factor": 0.5}}), "cluster.default.retries.factor", "not allowed (got 0.5)"),
    (cluster(default={"cache": "no"}), "cluster.default.cache", "not allowed (got 'no'); true or false"),
    (
        cluster(steps={"train": {}}),
        "cluster.steps.train",
        "not allowed (got 'train'); one of: 'example_gen', 'schema_gen'",
    ),
    (
        cluster(volumes={"A": VOLUMES["runs"]}),
        "cluster.volumes.A",
        "not allowed (got 'A'); lower case letters, digits and -",
    ),
    (
        cluster(volumes={"runs": {"claim": "x", "path": "/a/../b"}}),
        "cluster.volumes.runs.path",
        "not allowed (got '/a/../b'); must be an absolute path below / without '.', '..'",
    ),
    (
        cluster(volumes={"runs": {"claim": "x", "path": "a"}}),
        "cluster.volumes.runs.path",
        "not allowed (got 'a'); an ab",
    ),
    (
        cluster(service_account="A"),
        "cluster.service_account",
        "not allowed (got 'A'); lower case letters, digits, - an",
    ),
    (
        cluster(launcher={"kind": "ssh"}),
        "cluster.launcher.kind",
        "unknown kind (got 'ssh'); one of: 'local', 'mpijob', ",
    ),
    (cluster(launcher={"kind": "local", "host": {}}), "cluster.launcher.host", "unknown key (got a mapping of none)"),
    (
        cluster(launcher=MPI | {"network_interface": "eth0;x"}, volumes=VOLUMES),
        "cluster.launcher.network_interface",
        "not allowed (got 'eth0;x'); an interface as in eth0",
    ),
    (
        {"alerts": {"url": "https://x"}},
        "alerts.url",
        "unknown key (got 'https://x'); did you mean 'url_env'? allowed: k",
    ),
    ({"alerts": {"url_env": "https://x"}}, "alerts.url_env", "not allowed (got 'https://x'); letters, digits and _"),
    ({"alerts": {"on": []}}, "alerts.on", "has 0 items (got []); at least 1 item"),
    ({"alerts": {"on": ["blessed"]}}, "alerts.on[0]", "not allowed (got 'blessed'); one of: 'failed', 'refused'"),
    ({"alerts": {"timeout_s": 0}}, "alerts.timeout_s", "not allowed (got 0)"),
    ({"data.arrival": {}}, "data.arrival.marker", "is missing; it must be declared"),
    ({"data.arrival": ARRIVAL | {"wait_s": -1}}, "data.arrival.wait_s", "not allowed (got -1)"),
    ({"data.arrival": ARRIVAL | {"poll_s": 0}}, "data.arrival.poll_s", "not allowed (got 0)"),
    (
        {"data.arrival": {"marker": "_SUCCESS"}},
        "data.arrival.marker",
        "not allowed (got '_SUCCESS'); must contain {YYYY}, {MM} and {DD}",
    ),
    (
        {"data.arrival": {"marker": "../{YYYY}{MM}{DD}"}},
        "data.arrival.marker",
        "not allowed (got '../{YYYY}{MM}{DD}'); must be relative",
    ),
]

SECRET = {"secret": "s", "key": "k"}
EQUAL = {"key": "spot", "operator": "Equal"}
TWO_GPUS = {"gpu": {"count": 2}}
WHOLE: list[Case] = [
    (
        cluster(deadline_s=60, heartbeat_timeout_s=61),
        "cluster.heartbeat_timeout_s",
        "has no effect: the deadline comes first (got 61); less than deadline_s (60)",
    ),
    (
        cluster(default={"env": {"A": "x"}, "secrets": {"A": SECRET}}),
        "cluster.default.env.A",
        "is given twice (also under secrets); give it once",
    ),
    *[
        (
            cluster(steps={"pusher": {"env": {name: "hunter2"}}}),
            f"cluster.steps.pusher.env.{name}",
            "looks like a secret, and a spec is no place for one (its value is not shown); "
            f"write secrets: {{{name}: {{secret: <name of the Secret>, key: <its key>}}}}",
        )
        for name in ("DB_PASSWORD", "TOKEN", "AWS_SECRET_ACCESS_KEY", "API_KEY", "my_apikey", "GCP_CREDENTIALS")
    ],
    (
        cluster(default={"tolerations": [{"key": "a"}, EQUAL]}),
        "cluster.default.tolerations[1].value",
        "does not go with operator Equal (got None); give a value with Equal, and none with Exists",
    ),
    (
        cluster(default={"tolerations": [{"key": "spot", "value": "x"}]}),
        "cluster.default.tolerations[0].value",
        "does not go with operator Exists (got 'x'); give a value with Equal, and none with Exists",
    ),
    (
        cluster(steps={"trainer": {"retries": {"backoff_s": 60, "max_backoff_s": 59}}}),
        "cluster.steps.trainer.retries.max_backoff_s",
        "is less than the first wait (got 59); at least backoff_s (60)",
    ),
    (
        cluster(volumes=VOLUMES | {"more": {"claim": "c", "path": "/sangam/more"}}),
        "cluster.volumes.more.path",
        "lies in the volume 'runs', or around it (got /sangam/more, /sangam); give every volume a folder of its own",
    ),
    (
        cluster(volumes=VOLUMES | {"same": {"claim": "c", "path": "/sangam"}}),
        "cluster.volumes.same.path",
        "lies in the volume 'runs', or around it (got /sangam, /sangam)",
    ),
    (
        {"data.arrival": ARRIVAL | {"wait_s": 600}} | cluster(steps={"example_gen": {"timeout_s": 600}}),
        "data.arrival.wait_s",
        "is cut off: example_gen is ended before (got 600, timeout_s 600); wait for less, or raise timeout_s",
    ),
    (
        cluster(ranks=3, launcher=MPI | {"ranks_per_host": 2}, volumes=VOLUMES),
        "cluster.launcher.ranks_per_host",
        "does not divide the ranks (got 2 for 3); give every host equally many",
    ),
    (
        cluster(ranks=4, launcher=MPI | {"ranks_per_host": 4, "host": TWO_GPUS}, volumes=VOLUMES),
        "cluster.launcher.host.gpu.count",
        "is less than the ranks of a host (got 2); one for each rank: 4",
    ),
    (
        cluster(data_workers=0, launcher=MPI | {"data_worker": {"cpu": "1"}}, volumes=VOLUMES),
        "cluster.launcher.data_worker",
        "has no effect: data_workers is 0 (got settings); remove it",
    ),
    (
        cluster(launcher={"kind": "jobset"}),
        "cluster.volumes",
        "hosts meet in shared folders (got 0 volumes, none writable, for jobset); declare a writable one, and have",
    ),
    (
        cluster(launcher=MPI, volumes={"logs": {"claim": "l", "path": "/logs", "read_only": True}}),
        "cluster.volumes",
        "hosts meet in shared folders (got 1 volumes, none writable, for mpijob)",
    ),
    (
        cluster(launcher=MPI | {"coordinator": {"env": {"A_TOKEN": "hunter2"}}}, volumes=VOLUMES),
        "cluster.launcher.coordinator.env.A_TOKEN",
        "looks like a secret",
    ),
    (
        cluster(launcher=MPI | {"host": {"tolerations": [EQUAL]}}, volumes=VOLUMES),
        "cluster.launcher.host.tolerations[0].value",
        "does not go with operator Equal (got None)",
    ),
]


@pytest.mark.parametrize(("changes", "place", "text"), SHAPES + WHOLE, ids=[place for _, place, _ in SHAPES + WHOLE])
def test_mistake_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], place: str, text: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(changes)))
    assert [line for line in str(caught.value).splitlines() if f": {place}: {text}" in line], str(caught.value)
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
    assert {name for name in get_args(StepName) if f'.with_id("{name}")' in source} == set(get_args(StepName))
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
    assert Alerts().on == ("failed", "refused")


def test_what_the_trainer_step_is_told_survives_its_json() -> None:
    launch = Launch(
        launcher=MpiJobLauncher(kind="mpijob", host=Pod(gpu=Gpu(), tolerations=(Toleration(key="spot"),))),
        image=f"registry.example/sangam@sha256:{'a' * 64}",
        volumes={"runs": Volume(claim="sangam", path="/sangam")},
    )
    assert Launch.model_validate_json(launch.model_dump_json()) == launch

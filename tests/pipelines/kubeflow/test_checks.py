"""What a backend cannot do is said when a pipeline is compiled, with the reason."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from sangam.pipelines.kubeflow.checks import check
from sangam.pipelines.kubeflow.compile import job_text, mounted_root
from sangam.pipelines.kubeflow.target import Target
from sangam.schemas.errors import UserError
from tests.errors import tells
from tests.pipelines.kubeflow.compiled_files import HOOK, changed_spec

pytestmark = pytest.mark.slow

TARGET = Target("image:1", "", pipeline_root="/sangam/root", data_root="/sangam/data")
VERTEX = dataclasses.replace(TARGET, flavour="vertex", pipeline_root="/gcs/bucket/r", data_root="/gcs/bucket/logs")
BARE: dict[str, Any] = {"default": None, "steps": None, "volumes": None}


def refused(folder: Path, cluster: dict[str, Any], target: Target = TARGET, **changes: Any) -> str:
    """Returns why a spec is refused."""
    with pytest.raises(UserError) as error:
        check(changed_spec(folder, "short_video", {"cluster": cluster, **changes}), target)
    return str(error.value)


@pytest.mark.parametrize("name", ["short_video", "online_retail", "census_income"])
def test_the_reference_specs_are_fit_for_kubeflow(tmp_path: Path, name: str) -> None:
    check(changed_spec(tmp_path, name, {}), TARGET)


def test_a_root_on_no_volume_would_not_outlive_the_run(tmp_path: Path) -> None:
    text = refused(tmp_path, {}, dataclasses.replace(TARGET, pipeline_root="/elsewhere"))
    assert tells(text, "--pipeline-root", "(got /elsewhere; volumes: ")
    assert "lost with its pods" in text
    assert tells(refused(tmp_path, {"volumes": None}), "--pipeline-root", f"(got {TARGET.pipeline_root}; volumes: ")
    others = dataclasses.replace(TARGET, pipeline_root="/sangam/root-of-others")
    assert tells(refused(tmp_path, {}, others), "--pipeline-root", "(got /sangam/root-of-others; volumes: ")
    check(changed_spec(tmp_path, "short_video", {}), dataclasses.replace(TARGET, pipeline_root="/sangam/root/one"))


def test_what_stays_of_local_runs_is_refused_where_it_has_no_effect(tmp_path: Path) -> None:
    assert tells(refused(tmp_path, {}, keep={"runs": 3}), "keep", '(got {"runs":3})')


def test_metrics_that_nobody_can_read_are_refused(tmp_path: Path) -> None:
    text = refused(tmp_path, {"launcher": None}, monitoring={"port": 9400})
    assert tells(text, "monitoring", '(got {"port":9400}, and cluster.launcher of kind local)')
    pods = {"launcher": {"kind": "jobset"}}
    check(changed_spec(tmp_path, "short_video", {"cluster": pods, "monitoring": {"port": 9400}}), TARGET)


@pytest.mark.parametrize(
    ("cluster", "place", "value"),
    [
        (
            {"steps": {"example_gen": {"cache": True}}},
            "cluster.steps.example_gen.cache",
            "(got true)",
        ),
        (
            {"steps": {"trainer": {"timeout_s": 600}}},
            "cluster.steps.trainer.timeout_s",
            "cluster.deadline_s",
        ),
        (
            {"default": {"timeout_s": 300}, "steps": {}},
            "cluster.default.timeout_s",
            "(got 300)",
        ),
        (
            {"volumes": {"root": {"claim": "one", "path": "/sangam/root"}, "b": {"claim": "one", "path": "/b"}}},
            "cluster.volumes.b.claim",
            "(got one)",
        ),
        (
            {"volumes": {"root": {"claim": "a.claim", "path": "/sangam/root"}}},
            "cluster.volumes.root.claim",
            "volume",
        ),
        (
            {"volumes": {"root": {"claim": "a", "path": "/sangam/root"}, "b": {"claim": "b", "path": "/minio/b"}}},
            "cluster.volumes.b.path",
            "(got /minio/b)",
        ),
        (
            {
                "volumes": {
                    "root": {"claim": "a", "path": "/sangam/root"},
                    "data": {"claim": "b", "path": "/data", "read_only": True},
                }
            },
            "cluster.volumes.data.read_only",
            "no effect",
        ),
    ],
)
def test_what_kubeflow_cannot_do_is_refused(tmp_path: Path, cluster: dict[str, Any], place: str, value: str) -> None:
    assert tells(refused(tmp_path, cluster), place, value)


def test_alerts_need_their_address_in_every_step(tmp_path: Path) -> None:
    own = {"A": {"secret": "b", "key": "c"}}
    check(changed_spec(tmp_path, "short_video", {"cluster": {"default": {"secrets": HOOK}}, "alerts": {}}), TARGET)
    text = refused(tmp_path, {"default": {"secrets": HOOK}, "steps": {"pusher": {"secrets": own}}}, alerts={})
    assert tells(text, "cluster.steps.pusher.secrets", "(got no SANGAM_ALERT_URL and no SANGAM_ALERT_KEY)")
    assert tells(refused(tmp_path, {}, alerts={}), "cluster.default.secrets", "`alerts`")


def test_pods_of_a_training_job_need_a_root_that_they_share(tmp_path: Path) -> None:
    cluster = {"launcher": {"kind": "mpijob"}}
    check(changed_spec(tmp_path, "short_video", {"cluster": cluster}), TARGET)
    text = refused(tmp_path, cluster, dataclasses.replace(TARGET, pipeline_root="/sangam/data-of-others"))
    assert tells(text, "--pipeline-root", "(got /sangam/data-of-others; volumes: ")


def test_vertex_ai_refuses_with_a_reason_what_it_does_not_know(tmp_path: Path) -> None:
    cluster = {
        "launcher": {"kind": "jobset"},
        "service_account": "runner",
        "steps": {
            "trainer": {
                "gpu": {"count": 1},
                "node_pool": {"pool": "gpu"},
                "tolerations": [{"key": "spot"}],
                "secrets": {"A": {"secret": "b", "key": "c"}},
                "shared_memory": "1GiB",
            },
        },
    }
    text = refused(tmp_path, cluster, dataclasses.replace(TARGET, flavour="vertex"), alerts={})
    for expected in (
        "cluster.launcher: Vertex AI starts no pods of Kubernetes (got jobset)",
        "cluster.volumes: Vertex AI mounts Cloud Storage alone, at /gcs (got root, data)",
        "cluster.service_account: is a name of Kubernetes (got runner)",
        "alerts: their address and key come from Secrets",
        "cluster.steps.trainer.node_pool: Vertex AI has no nodes to choose from",
        "cluster.steps.trainer.tolerations: Vertex AI has no nodes with taints",
        "cluster.steps.trainer.secrets: Vertex AI gives containers no Secrets",
        "cluster.steps.trainer.shared_memory: Vertex AI sets /dev/shm itself",
        "cluster.default.timeout_s: Vertex AI knows a timeout of the whole job alone",
        "cluster.steps.trainer.gpu.type: is a resource of Kubernetes (got nvidia.com/gpu)",
        "--pipeline-root: is no folder of Cloud Storage (got /sangam/root)",
        "--data-root: lies nowhere that Vertex AI's containers see (got /sangam/data)",
    ):
        assert expected in text, expected
    assert len(text.splitlines()) == len(set(text.splitlines()))


def test_vertex_ai_takes_cores_memory_accelerators_and_retries(tmp_path: Path) -> None:
    trainer = {"cpu": "8", "memory": "52GB", "gpu": {"type": "NVIDIA_TESLA_V100"}}
    check(changed_spec(tmp_path, "short_video", {"cluster": {**BARE, "steps": {"trainer": trainer}}}), VERTEX)


def test_vertex_ais_job_writes_where_its_containers_read() -> None:
    assert mounted_root("gs://bucket/r") == mounted_root("/gcs/bucket/r") == "/gcs/bucket/r"
    job = json.loads(job_text({"schemaVersion": "2.1.0"}, display_name="short_video", pipeline_root="/gcs/bucket/r"))
    assert job["runtimeConfig"]["gcsOutputDirectory"] == "gs://bucket/r/artifacts"
    assert job["pipelineSpec"] == {"schemaVersion": "2.1.0"}


def test_every_reason_is_one_line_with_a_place_and_what_was_got(tmp_path: Path) -> None:
    text = refused(tmp_path, {**BARE, "steps": {"pusher": {"cache": True}, "trainer": {"timeout_s": 600}}})
    assert len(text.splitlines()) == 3
    assert all(re.match(r"^[-a-z_.]+: .*\(got .*", line) for line in text.splitlines())


def test_a_step_on_an_engine_ends_before_its_pod(tmp_path: Path) -> None:
    flink = {"runner": "flink", "master": "flink:8081"}
    check(changed_spec(tmp_path, "short_video", {"beam": flink}), TARGET)
    text = refused(tmp_path, {}, beam={**flink, "timeout_s": 99999})
    assert tells(text, "beam.timeout_s", "(got 99999) ... cluster.steps.transform.timeout_s")


def test_dataflow_needs_cloud_storage(tmp_path: Path) -> None:
    dataflow = {
        "runner": "dataflow", "project": "p1-x", "region": "europe-west4", "temp_location": "gs://bucket/t",
        "image": "sangam:1",
    }  # fmt: skip
    beam = {"runner": "local", "steps": {"transform": dataflow}}
    text = refused(tmp_path, {}, beam=beam)
    assert tells(text, "--pipeline-root", "(got /sangam/root and beam.steps.transform: dataflow)")
    assert tells(text, "--data-root", "(got /sangam/data and beam.steps.transform: dataflow)")
    check(changed_spec(tmp_path, "short_video", {"cluster": BARE, "beam": beam}), VERTEX)

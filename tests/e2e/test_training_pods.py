"""The trainer step launches a job of several pods: real commands as real processes, behind a server of our own."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.components.steps.trainer.kubernetes.sample_inputs import make_inputs, ranker
from tests.components.steps.trainer.kubernetes.sample_run import ROLE, wait_until
from tests.fakes.kubelet import ProcessKubelet
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.kubernetes_controllers import Controllers

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shared")
    make_inputs(root)
    return root


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[KubernetesApi, ProcessKubelet]]:
    with KubernetesApi(ROLE) as api:
        monkeypatch.setenv("KUBECONFIG", str(api.write_kubeconfig(tmp_path / "kubeconfig")))
        kubelet = ProcessKubelet(api.store, tmp_path / "scratch")
        with Controllers(api.store, kubelet):
            yield api, kubelet
        kubelet.close()


def execute(inputs: Path, kind: str, **training: Any) -> Path:
    """Runs the step's executor; returns the folder of its outputs."""
    from tfx.types import artifact_utils, standard_artifacts

    from components.registry import seal
    from components.registry.checkpoint import RankerCheckpoint
    from components.steps.trainer.executor import Executor

    root = inputs / kind
    given = {
        "examples": standard_artifacts.Examples(),
        "transformed_examples": standard_artifacts.Examples(),
        "transform_graph": standard_artifacts.TransformGraph(),
    }
    made = {
        "model": standard_artifacts.Model(),
        "training": standard_artifacts.ModelRun(),
        "checkpoint": RankerCheckpoint(),
    }
    for artifacts, folder in ((given, inputs), (made, root / "artifacts")):
        for name, artifact in artifacts.items():
            artifact.uri = str(folder / name)
    for name in ("examples", "transformed_examples"):
        given[name].split_names = artifact_utils.encode_split_names(["train", "eval"])
    graph = given["transform_graph"]
    graph.set_string_custom_property(seal.SHA256, seal.seal(graph.uri))
    launch = {
        "launcher": {"kind": kind, "network_interface": "lo"},
        "image": "registry.example/trainer@sha256:" + "0" * 64,
        "volumes": {"shared": {"claim": "shared", "path": str(inputs)}},
    }
    properties = {
        "ranker": ranker(**training).model_dump_json(),
        "pipeline_root": str(root),
        "code": "c",
        "launch": json.dumps(launch),
    }
    inputs_of_step, outputs_of_step = ({key: [value] for key, value in each.items()} for each in (given, made))
    Executor().Do(inputs_of_step, outputs_of_step, properties)
    return root


def test_a_job_of_two_hosts_goes_on_when_one_of_them_loses_its_node(
    inputs: Path, cluster: tuple[KubernetesApi, ProcessKubelet], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    api, kubelet = cluster

    def lose_a_host() -> None:
        wait_until(lambda: list(inputs.glob("jobset/checkpoints/*/*/step-*/manifest.json")), "a checkpoint", 120)
        [host] = [pod["metadata"]["name"] for pod in api.store.list("pods") if "-host-0-1-" in pod["metadata"]["name"]]
        kubelet.lose(host)

    thread = threading.Thread(target=lose_a_host)
    thread.start()
    root = execute(inputs, "jobset", epochs=4, batch_size_per_rank=8, checkpoint={"every_steps": 10, "keep": 2})
    thread.join()
    report = json.loads((root / "artifacts" / "training" / "training.json").read_text())
    assert report["resumed_from_step"], "training has begun anew"
    _assert_trained_and_gone(root, api, kubelet)
    assert len([name for name in kubelet.commands if "-host-0-" in name]) == 3
    assert "coordinator: " in caplog.text
    assert not (root / "checkpoints").exists()


def test_a_job_of_two_hosts_is_held_by_an_mpijob_as_well(
    inputs: Path, cluster: tuple[KubernetesApi, ProcessKubelet]
) -> None:
    api, kubelet = cluster
    root = execute(inputs, "mpijob", epochs=1)
    _assert_trained_and_gone(root, api, kubelet)
    name = next(name for name in kubelet.commands if name.endswith("-worker-1"))
    index = kubelet.commands[name].index("--index")
    assert kubelet.commands[name][index + 1] == "1"


def _assert_trained_and_gone(root: Path, api: KubernetesApi, kubelet: ProcessKubelet) -> None:
    assert list((root / "artifacts" / "model").rglob("saved_model.pb"))
    [log_dir] = (root / "training" / "served").iterdir()
    assert (log_dir / "progress.jsonl").exists()
    assert not (log_dir / "failure.txt").exists()
    assert list(api.store.objects) == []
    assert kubelet.alive() == []

"""Trainings, a server and a real Prometheus at work: every query of the dashboard gives data."""

import base64
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from sangam.components.registry import seal
from sangam.components.registry.versions import SHADOW
from sangam.schemas.contracts.drift_reference import FILE_NAME, Bins, ColumnReference, DriftReference
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.export import DESCRIPTION_FILE, read_description
from sangam.schemas.contracts.monitoring import on_this_machine
from sangam.schemas.contracts.root import Root
from sangam.schemas.contracts.training_job import TrainJob, read_job
from sangam.schemas.contracts.training_job import write_job as write_job_file
from sangam.schemas.spec.monitoring import Monitoring
from sangam.schemas.spec.serving import RequestLog
from tests.components.server.server_process import Running, running
from tests.prometheus import server as prometheus
from tests.prometheus.server import Prometheus, promtool
from tests.trainer_module.launch.launched_job import group_of, launch, wait_until
from tests.trainer_module.serving.sample_deltas import LINEAGE, publish, push

pytestmark = [pytest.mark.processes, pytest.mark.long]
tf = pytest.importorskip("tensorflow")

_RUN_S = 400
"""Until everything must have told something: ten processes import TensorFlow, on two cores that others may want."""
_WINDOW = "20s"
"""What Grafana puts for a rate's interval, four times as long as between two scrapes at least."""


@pytest.fixture(scope="module", autouse=True)
def _prometheus_is_here() -> None:
    prometheus.require()


def _training(folder: Path, root: Root) -> Path:
    """Writes the job of a training with everything that has metrics: ranks, parameter servers, a pool."""
    from tests.trainer_module.sample_job import declared, write_examples, write_job

    ranker = declared(
        ranks=2,
        data_workers=1,
        epochs=100_000,
        batch_size_per_rank=32,
        sync={"kind": "async"},
        checkpoint={"every_steps": 50, "keep": 2},
        tables={"tags": {"capacity": {"rows": 12, "evict": "least_frequent"}}},
    )
    job_file = write_job(folder, ranker, write_examples(folder / "data", num_files=1), is_exported=False)
    told = on_this_machine(Monitoring(), root.metrics, "sangam-trainer")
    write_job_file(job_file, read_job(job_file).model_copy(update={"monitoring": told}))
    return job_file


def _online_training(folder: Path, root: Root) -> tuple[Path, TrainJob]:
    """Writes the job of an online training from nothing, and what it reads."""
    from sangam.trainer_module.input.raw_examples import first_examples
    from tests.trainer_module.online.streams import online_job, write_segments
    from tests.trainer_module.sample_job import declared, write_examples

    job = online_job(folder, declared(ranks=1, batch_size_per_rank=16), base=None)
    assert job.stream is not None
    files = write_examples(folder / "data", num_files=1, num_examples=200)
    write_segments(Path(job.stream.segments), first_examples(files, 200), rows=50)
    job = job.model_copy(update={"monitoring": on_this_machine(Monitoring(), root.metrics, "sangam-online")})
    write_job_file(folder / "job.json", job)
    return folder / "job.json", job


def _add_reference(version: Path) -> None:
    """Adds what requests are compared with: every column's missing values, and a first score."""
    file = version / DESCRIPTION_FILE
    described = read_description(str(file), file.read_bytes())
    column = {
        name: ColumnReference(type=of.type, missing=0.5, bounds={"missing_share": 0.1})
        for name, of in described.columns.items()
    }
    scores = {next(iter(described.tasks)): Bins(cuts=(0.5,), shares=(0.5, 0.5))}
    (version / FILE_NAME).write_text(DriftReference(rows=2, columns=column, scores=scores).text())
    seal.seal(str(version))


def _add_shadow(version: Path) -> None:
    """Has each request to a version be logged, and scored by the same model in its shadow."""
    aside = version.parent / SHADOW / str(int(LINEAGE) + 1)
    shutil.copytree(version, aside)
    for folder in (version, aside):
        file = folder / seal.MANIFEST_FILE
        told = json.loads(file.read_text())
        every = RequestLog(share=1.0).model_dump(mode="json")
        file.write_text(json.dumps(told | {"request_log": every, "shadow": {"share": 1.0}}))


class _Client:
    """Asks a server, and publishes the deltas that it follows."""

    def __init__(self, server: Running, versions: Path):
        from sangam.trainer_module.transforms.keys import id_keys
        from tests.trainer_module.serving.sample_training import declared, encoded, rows

        self._server, self._versions = server, versions
        self._body = {"inputs": {"examples": [{"b64": base64.b64encode(encoded(row)).decode()} for row in rows(3)]}}
        self._keys = id_keys(declared().table_tags()["users"], tf.constant(["u1", "u2"])).numpy()
        self._delta = 0

    def ask(self) -> None:
        assert self._server.post(self._body, "/v1/models/served:predict").status_code == 200

    def publish(self) -> None:
        self._delta += 1
        publish(self._versions, self._delta, {"adagrad_8": (self._keys, np.ones([2, 8], np.float32))})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return Root(str(tmp_path_factory.mktemp("root")))


@pytest.fixture(scope="module")
def scraped(
    exported: Callable[[str, str], TrainJob], root: Root, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Prometheus, dict[str, str]]]:
    """A Prometheus after trainings and a server have run; and why queries of the dashboard have given nothing."""
    folder = tmp_path_factory.mktemp("monitored")
    stale = root.metrics / "sangam-trainer.small.rank-7.json"
    root.metrics.mkdir()
    stale.write_text(json.dumps([{"targets": ["127.0.0.1:9"], "labels": {"instance": "stale"}}]))  # Of a kill -9.
    training = _training(folder / "training", root)
    online_file, online = _online_training(folder / "online", root)
    versions = folder / "versions"
    live = push(Path(exported("stock", "float32").model_dir), versions)
    _add_reference(live)
    _add_shadow(live)
    launched = [launch(training), launch(online_file)]
    config = prometheus.shipped_config(folder, root.path)
    try:
        with prometheus.running(config, folder / "data") as asked:
            (folder / "server").mkdir()
            own = ("--name", "served", "--metrics-target", str(root.metrics / "server.json"))
            own += ("--log", str(folder / "requests"))
            with running(versions, folder / "server", *own) as server:
                told = _wait_for_data(asked, _Client(server, versions))
                _check_pages(asked)
                server.process.terminate()
                assert server.process.wait(60) == ExitCode.DONE
            launched[0].terminate()
            online.stop_file.touch()
            assert [process.wait(60) for process in launched] == [ExitCode.TERMINATED, ExitCode.DONE]
            assert [group_of(process.pid) for process in launched] == [[], []]
            yield asked, told
    finally:
        for process in launched:
            for left in group_of(process.pid):
                left.kill()
            process.wait()


def _wait_for_data(asked: Prometheus, client: _Client) -> dict[str, str]:
    """Keeps everything busy until every query has data; returns those that have none, with their panels."""
    missing = {query: title for title, query in prometheus.queries(prometheus.dashboard())}
    given_up = time.monotonic() + _RUN_S
    client.publish()
    while missing and time.monotonic() < given_up:
        client.ask()
        missing = {query: title for query, title in missing.items() if not asked.values(_as_grafana_asks(query))}
        time.sleep(0.5)
    return missing


def _as_grafana_asks(query: str) -> str:
    """Returns a query with Grafana's variables replaced: all rankers."""
    replaced = query.replace("$__rate_interval", _WINDOW).replace("$ranker", ".*")
    assert "$" not in replaced, query
    return replaced


def _check_pages(asked: Prometheus) -> None:
    """Fails where Prometheus's own linter finds fault with what a process serves."""
    for target in asked.targets().values():
        page = httpx.get(target["scrapeUrl"], timeout=30).text
        assert promtool("metrics", told=page) == "", target["scrapeUrl"]
        wrong = httpx.get(target["scrapeUrl"].replace("/metrics", "/nothing"), timeout=30)
        assert wrong.status_code == 404


def test_every_query_of_the_dashboard_gives_data(scraped: tuple[Prometheus, dict[str, str]]) -> None:
    asked, missing = scraped
    assert missing == {}
    assert asked.values("sangam_of_no_such_name") == []


def test_prometheus_found_every_process_by_the_files_of_the_root_alone(
    scraped: tuple[Prometheus, dict[str, str]],
) -> None:
    asked, _ = scraped
    assert set(asked.labels("instance", "sangam_trainer_steps_total")) == {"small rank-0", "small rank-1"}
    up = {
        "small dispatcher",
        "small data-worker-0",
        "small parameter-server-0",
        "small rank-0",
        "small rank-1",
        "server",
    }
    assert set(asked.labels("instance", "process_cpu_seconds_total")) == up
    assert set(asked.labels("job", "process_cpu_seconds_total")) == {"sangam-trainer", "sangam-online", "sangam-server"}
    assert set(asked.labels("ranker", "process_cpu_seconds_total")) == {"small", "served"}


def test_nothing_is_left_for_prometheus_when_the_processes_have_ended(
    scraped: tuple[Prometheus, dict[str, str]], root: Root
) -> None:
    asked, _ = scraped
    assert list(root.metrics.iterdir()) == []
    wait_until(lambda: asked.targets() == {}, 30, "Prometheus scrapes nothing")


def test_counts_add_up_over_ranks_at_their_own_pace(scraped: tuple[Prometheus, dict[str, str]]) -> None:
    asked, _ = scraped
    given, trained = (
        max(asked.values(f"sum(max_over_time(sangam_trainer_{name}_total{{job='sangam-trainer'}}[1h]))"))
        for name in ("input_rows", "examples")
    )
    # A rank is given some batches ahead of its steps.
    assert 0 < trained <= given <= trained + 2 * 32 * 16


def test_the_shipped_configuration_is_valid(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "metrics").mkdir(parents=True)
    (root / "metrics" / "server.json").write_text("[]")
    assert "SUCCESS" in promtool("config", str(prometheus.shipped_config(tmp_path, root)))


def test_the_shipped_configuration_for_kubernetes_finds_the_ports_of_metrics_and_no_other(tmp_path: Path) -> None:
    # Debian's Prometheus knows no Kubernetes: it is given what that would find.
    def pod(component: str, port: str, **more: str) -> dict[str, Any]:
        found = {
            "pod_label_app_kubernetes_io_name": "sangam",
            "pod_label_app_kubernetes_io_component": component,
            "pod_container_port_name": port,
            "pod_annotation_sangam_dev_ranker": "short_video",
            "pod_name": f"a-{component}",
            "pod_phase": "Running",
            **more,
        }
        labels = {f"__meta_kubernetes_{name}": value for name, value in found.items()}
        return {"targets": [f"10.0.0.{len(made) + 1}:9464"], "labels": labels}

    made: list[dict[str, Any]] = []
    for component, port in (("host", "metrics-0"), ("host", "metrics-1"), ("data-worker", "metrics-0")):
        made.append(pod(component, port))
    made.append(pod("server", "rest"))
    for component, port in (("data-worker", "main"), ("server", "grpc"), ("coordinator", "main")):
        made.append(pod(component, port))
    made.append(pod("host", "metrics-0", pod_phase="Failed"))
    made.append(pod("web", "metrics-0", pod_label_app_kubernetes_io_name="other"))
    (tmp_path / "pods.json").write_text(json.dumps(made))
    text = (prometheus.GRAFANA / "prometheus-kubernetes.yml").read_text()
    own = f"file_sd_configs:\n      - files: [{tmp_path}/pods.json]"
    text, times = re.subn(r"kubernetes_sd_configs:\n +- role: pod", own, text)
    assert times == 1
    config = tmp_path / "prometheus.yml"
    config.write_text(text)
    found = json.loads(promtool("service-discovery", "--timeout=2s", str(config), "sangam"))
    kept = [target["labels"] for target in found if target.get("labels")]
    assert sorted((each["job"], each["process"], each["instance"]) for each in kept) == [
        ("sangam-server", "server", "a-server rest"),
        ("sangam-trainer", "data-worker", "a-data-worker metrics-0"),
        ("sangam-trainer", "host", "a-host metrics-0"),
        ("sangam-trainer", "host", "a-host metrics-1"),
    ]
    assert {each["ranker"] for each in kept} == {"short_video"}

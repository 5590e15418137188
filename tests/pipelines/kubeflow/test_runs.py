"""The compiled files of the reference specs run, task by task, with their own commands: day after day, and badly."""

import dataclasses
import datetime
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from sangam.components.record.store import read_runs
from sangam.components.registry.blessed import BlessedModel
from sangam.pipelines.kubeflow.compile import compile_pipeline
from sangam.pipelines.kubeflow.writing import write_compiled
from sangam.pipelines.synthetic import generate
from sangam.schemas.spec.cluster import StepName
from tests.browser.pages import look_at
from tests.e2e.user_run import LEAN_RETAIL
from tests.fakes.webhook import webhook
from tests.pipelines.kubeflow import warm_steps
from tests.pipelines.kubeflow.compiled_files import HOOK, TARGET, changed_spec
from tests.pipelines.kubeflow.fake_backend import STORE, Backend, Produced, Start, TaskFailed, run_compiled

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(900)]

SMALL_TRAINING = {
    "epochs": 1,
    "batch_size_per_rank": 64,
    "dense_optimizer": {"kind": "adam", "learning_rate": 0.002},
    "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
}
LITTLE: dict[str, Any] = {"evaluation": {"group": {"by": "user"}}}
ONE_PROCESS = {"ranks": 1, "data_workers": 0}
"""Training jobs of several processes have tests of their own."""


@dataclass(frozen=True)
class Run:
    """A run that has ended well.

    Attributes:
        produced: output artifacts by task and key.
        root: the pipeline root.
        backend: that it ran on.
    """

    produced: Produced
    root: Path
    backend: Backend

    def pushed(self) -> dict[str, Any]:
        """Returns the pusher's properties."""
        outputs = self.produced.get("pusher") or self.produced["reporter"]
        # Its name has the step's in front where that shares a process.
        [metadata] = [found["metadata"] for key, found in outputs.items() if key.endswith("pushed_model")]
        return dict(metadata)

    def manifest(self) -> dict[str, Any]:
        """Returns the pushed version's manifest."""
        manifest: dict[str, Any] = json.loads(Path(self.pushed()["path"], "manifest.json").read_text())
        return manifest

    def path(self, task: str, key: str) -> Path:
        """Returns where an output of a task, or of one of its steps, lies."""
        own = self.produced.get(task, {}).get(key)
        shared = (outputs.get(f"{task}__{key}") for outputs in self.produced.values())
        uri = (own or next(filter(None, shared)))["uri"]
        return self.root / "artifacts" / "minio" / uri.removeprefix("minio://")


def compiled_file(folder: Path, name: str, changes: dict[str, Any]) -> Path:
    """Compiles a changed spec, without a default date."""
    target = dataclasses.replace(TARGET, date="")
    path = folder / f"{name}.pipeline.yaml"
    write_compiled(compile_pipeline(changed_spec(folder, name, changes), target), path)
    return path


def relaxed(name: str) -> list[dict[str, Any]]:
    """Returns gates that a model of little data passes, and that compare it with the last one nevertheless."""
    tasks = {"short_video": ("like", "long_watch"), "online_retail": ("reorder", "bulk", "high_value")}[name]
    return [{"task": task, "metric": "auc", "at_least": 0.0, "max_drop": 1.0} for task in tasks]


@pytest.fixture(scope="module")
def short_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with logs of four days and the compiled file."""
    folder = tmp_path_factory.mktemp("short_video")
    generate(
        folder / "data",
        first_day=datetime.date(2024, 3, 4),
        num_days=4,
        rows_per_day=400,
        num_users=40,
        num_posts=80,
        seed=1,
    )
    data = {"kind": "days", "format": "parquet", "pattern": "{YYYY}-{MM}-{DD}/*.parquet", "train_days": 3}
    changes = {"data": data, "training": SMALL_TRAINING, "alerts": {}, **LITTLE, "gates": relaxed("short_video")}
    default = {"secrets": HOOK, "retries": {"count": 1}, "timeout_s": 28000}
    cluster = {**ONE_PROCESS, "default": default}
    changes["cost"] = {"currency": "EUR", "rank_per_hour": 0.5, "step_per_hour": 0.1}
    compiled_file(folder, "short_video", {**changes, "cluster": cluster})
    return folder


def run(file: Path, folder: Path, backend: Backend, **parameters: str) -> Run:
    """Runs a compiled file on the root in a folder."""
    root = folder / "root"
    produced = run_compiled(file, {"pipeline_root": str(root), **parameters}, backend)
    return Run(produced, root, backend)


def secrets(url: str = "https://127.0.0.1:9/unused") -> dict[str, dict[str, str]]:
    """Returns the Secrets of the namespace."""
    return {"sangam-alerts": {"url": url, "key": "0123456789abcdef0123"}}


@pytest.fixture(scope="module")
def warm() -> Iterator[Start]:
    """Starts steps in a process that has loaded TFX."""
    yield warm_steps.start
    warm_steps.stop()


@pytest.fixture(scope="module")
def video_run(short_video: Path, warm: Start) -> Run:
    """A run without a date, created just after midnight. Its tasks start cold in the tests of the cluster."""
    backend = Backend(short_video / "pods", secrets(), created="2024-03-08T00:10:00Z", start=warm)
    file = short_video / "short_video.pipeline.yaml"
    return run(file, short_video, backend, data_root=str(short_video / "data"))


def test_a_run_without_a_date_is_for_the_day_before_and_ends_with_a_pushed_model(video_run: Run) -> None:
    assert video_run.pushed()["pushed"] == 1
    version = Path(video_run.pushed()["path"])
    assert version.is_relative_to(video_run.root / "serving" / "short_video")
    assert (version / "saved_model.pb").is_file()
    assert video_run.manifest()["days"] == {
        "eval": ["2024-03-07"],
        "train": ["2024-03-04", "2024-03-05", "2024-03-06"],
    }


def test_every_task_ran_once_and_some_hold_several_steps(video_run: Run) -> None:
    assert set(video_run.backend.tries.values()) == {1}
    assert len(video_run.backend.tries) == 4


def test_every_output_lies_on_the_root_and_has_the_backends_address(video_run: Run) -> None:
    for task, outputs in video_run.produced.items():
        for key, artifact in outputs.items():
            assert artifact["uri"].startswith(STORE)
            if key != "executor-logs":
                assert video_run.path(task, key).exists(), (task, key)
    assert (video_run.path("trainer", "model") / "Format-Serving" / "saved_model.pb").is_file()


def test_what_is_registered_outlives_the_run(video_run: Run) -> None:
    (record,) = (video_run.root / "blessed" / "short_video").iterdir()
    blessed = BlessedModel.model_validate_json(record.read_text())
    assert blessed.model_uri == str(video_run.path("trainer", "model"))
    assert blessed.checkpoint_uri == str(video_run.path("trainer", "checkpoint"))
    assert blessed.transform_graph_uri == str(video_run.path("transform", "transform_graph"))


def test_the_page_lies_in_the_runs_folder_and_in_the_reporters_output(video_run: Run) -> None:
    page = video_run.root / "runs" / video_run.backend.run_id / "report.html"
    shown = page.read_text()
    for words in ("Pushed", "short_video · 2024-03-07", video_run.pushed()["version"], "long_watch"):
        assert words in shown
    assert video_run.path("reporter", "reporter__page").read_bytes() == page.read_bytes()


def test_the_record_has_each_step_also_those_that_share_a_process_with_what_it_took(video_run: Run) -> None:
    [found] = read_runs(video_run.root)
    assert (found.state, found.ranker, found.date, found.record is None) == (
        "pushed",
        "short_video",
        "2024-03-07",
        False,
    )
    assert list(found.steps) == [name for name in get_args(StepName) if name != "reporter"]
    for step in found.steps.values():
        assert step.state == "ran", step
        assert (step.seconds or 0.0) > 0.0 < step.cpu_seconds, step
        assert step.peak_memory_bytes > 50e6, step
    assert found.record
    assert found.record.cost
    assert found.record.cost.by_step.keys() == found.steps.keys()
    page = found.folder.page.read_text()
    assert all(word in page for word in ("peak memory", "infra_validator", found.record.cost.currency))


def test_kubeflows_own_pages_have_the_metrics_and_the_curves(video_run: Run) -> None:
    made = {
        name.removeprefix("reporter__"): found["metadata"] for name, found in video_run.produced["reporter"].items()
    }
    assert {"page", "metrics", "roc_like", "roc_long_watch"} <= set(made)
    assert made["metrics"]["pushed"] == 1
    assert made["metrics"]["gates"] == made["metrics"]["gates passed"] > 0
    assert 0.0 < made["metrics"]["like auc"] <= 1.0
    points = made["roc_like"]["confidenceMetrics"]
    assert (made["roc_like"]["display_name"], len(points)) == ("like", 41)
    assert [set(point) for point in points] == [{"confidenceThreshold", "falsePositiveRate", "recall"}] * 41
    area = sum(
        (after["falsePositiveRate"] - before["falsePositiveRate"]) * (after["recall"] + before["recall"]) / 2
        for before, after in itertools.pairwise(points)
    )
    # Trapezoids of 40 bins of scores.
    assert area == pytest.approx(made["metrics"]["like auc"], abs=0.03)


@pytest.mark.long
@pytest.mark.parametrize(("policy", "pods"), [("OnFailure", 2), ("OnError", 1)])
def test_a_step_that_fails_for_good_says_so_in_one_line_and_tells_once(
    short_video: Path, warm: Start, policy: Any, pods: int
) -> None:
    file = short_video / "short_video.pipeline.yaml"
    with webhook() as hook:
        backend = Backend(short_video / f"failing-{policy}", secrets(hook.url), policy=policy, start=warm)
        with pytest.raises(TaskFailed) as failed:
            run(file, short_video / "elsewhere", backend, date="2024-03-09", data_root=str(short_video / "data"))
    assert failed.value.code == 2
    (line,) = [line for line in failed.value.log.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: example_gen: ")
    assert "2024-03-09" in line
    assert "Traceback" not in failed.value.log
    assert backend.tries["example-gen"] == pods
    (received,) = hook.received
    alert = json.loads(received.body)
    assert (alert["kind"], alert["step"], alert["date"]) == ("failed", "example_gen", "2024-03-09")
    assert alert["run"] == backend.run_id
    assert line == f"error: example_gen: {alert['reason']}"
    page = short_video / "elsewhere" / "root" / "runs" / backend.run_id / "report.html"
    look_at(page, "Failed", alert["reason"], "What to try")


@pytest.fixture(scope="module")
def retail_runs(tmp_path_factory: pytest.TempPathFactory, repository: Path, warm: Start) -> tuple[Run, Run]:
    """Two days of the real data: the second run is another one of the same file, and knows the root alone."""
    lines = repository.parent / "shared" / "data" / "online_retail" / "lines"
    if not lines.exists():
        pytest.skip(f"needs the real data beside the checkout, in {lines}")
    folder = tmp_path_factory.mktemp("online_retail")
    document = yaml.safe_load((repository / "pipelines" / "specs" / "online_retail.yaml").read_text())
    data = {**document["data"], "train_days": 2}
    training = {**document["training"], "epochs": 1}
    changes = {"data": data, "training": training, **LEAN_RETAIL, **LITTLE, "gates": relaxed("online_retail")}
    file = compiled_file(folder, "online_retail", {**changes, "cluster": ONE_PROCESS})
    first, second = (
        run(file, folder, Backend(folder / f"pods-{date}", start=warm), date=date, data_root=str(lines))
        for date in ("2011-11-29", "2011-11-30")
    )
    return first, second


@pytest.mark.long
@pytest.mark.real_data
def test_the_next_days_run_starts_from_the_first_ones_checkpoint(retail_runs: tuple[Run, Run]) -> None:
    first, second = retail_runs
    days = second.manifest()["days"]
    assert (days["train"], days["eval"]) == (["2011-11-29"], ["2011-11-30"])
    assert second.manifest()["base_days"] == first.manifest()["days"]["train"]
    statistics = [Path(run.path("transform", "transform_graph"), "statistics.json") for run in (first, second)]
    assert statistics[0].read_bytes() == statistics[1].read_bytes()


@pytest.mark.long
@pytest.mark.real_data
def test_the_next_days_run_is_compared_with_the_first_ones_model(retail_runs: tuple[Run, Run]) -> None:
    first, second = retail_runs
    assert first.manifest()["baseline"] is None
    assert second.manifest()["baseline"] == str(first.path("trainer", "model"))


@pytest.mark.long
@pytest.mark.real_data
def test_the_second_days_page_shows_the_first_day(retail_runs: tuple[Run, Run]) -> None:
    first, second = ((run.root / "runs" / run.backend.run_id / "report.html").read_text() for run in retail_runs)
    words = "auc of the last 30 days"
    assert (words in first, words in second) == (False, True)


@pytest.mark.long
@pytest.mark.real_data
def test_both_days_models_are_served_from_one_folder(retail_runs: tuple[Run, Run]) -> None:
    first, second = retail_runs
    versions = [Path(run.pushed()["path"]) for run in (first, second)]
    assert versions[0].parent == versions[1].parent == first.root / "serving" / "online_retail"
    assert versions[0].name < versions[1].name

"""From the step's parameters to what is launched: names, folders, and what all pods must see."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.errors import UserError
from tests.components.steps.trainer.test_executor import RANKER, artifacts, report
from tests.errors import place_and_value
from tests.schemas.sample_jobs import sample_job

pytestmark = pytest.mark.slow


def launched(folder: Path, monkeypatch: pytest.MonkeyPatch, *, volumes: dict[str, Any], root: str = "") -> Any:
    """Returns the run and the log folder that the executor launches, and the fields of the job file."""
    from sangam.components.steps.trainer import executor

    found: list[Any] = []
    monkeypatch.setattr(executor, "run_pods", lambda *given: found.append(given))
    inputs, outputs = artifacts(folder)
    launch = {"launcher": {"kind": "jobset"}, "image": "registry.example/trainer:1", "volumes": volumes}
    properties = {"pipeline_root": root or str(folder), "code": "c", "launch": json.dumps(launch)}
    job = executor._run_pods(RANKER, report(None), inputs, outputs, properties)
    [(run, log_dir)] = found
    return run, log_dir, job


def test_logs_and_checkpoints_lie_on_the_shared_volume_under_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, log_dir, job = launched(tmp_path, monkeypatch, volumes={"data": {"claim": "c", "path": str(tmp_path)}})
    identity = Path(job.checkpoint_dir).name
    assert log_dir == tmp_path / "training" / "short_video" / identity
    assert run.name == f"short-video-{identity[:10]}"
    written = json.loads(Path(run.job_file).read_text())
    assert written["log_dir"] == str(log_dir)
    assert Path(run.job_file).parent == log_dir


def test_another_try_of_the_step_launches_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sangam.components.steps.trainer.kubernetes.launch import write_shared_job

    first = sample_job(tmp_path)
    written = write_shared_job(tmp_path, first)
    assert write_shared_job(tmp_path, first) == written
    assert write_shared_job(tmp_path, first.model_copy(update={"log_dir": "b"})) != written


@pytest.mark.parametrize(
    ("volume", "told"),
    [
        ({"claim": "c", "path": "/elsewhere"}, "(got volumes at /elsewhere)"),
        ({"claim": "c", "path": "ROOT", "read_only": True}, "(got writable volumes at no path)"),
    ],
)
def test_a_root_that_the_pods_would_not_see_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, volume: dict[str, Any], told: str
) -> None:
    volume = volume | {"path": volume["path"].replace("ROOT", str(tmp_path))}
    with pytest.raises(UserError, match=place_and_value("trainer", f"{told} ... cluster.volumes")):
        launched(tmp_path, monkeypatch, volumes={"data": volume})


def test_a_root_in_an_object_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    volumes = {"data": {"claim": "c", "path": str(tmp_path)}}
    with pytest.raises(UserError, match=place_and_value("trainer", "(got s3://bucket/root)")):
        launched(tmp_path, monkeypatch, volumes=volumes, root="s3://bucket/root")

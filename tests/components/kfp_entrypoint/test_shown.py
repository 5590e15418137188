"""What a task hands over and tells beside its outputs: the file that Kubeflow's pages show, and signs of life."""

import time
from pathlib import Path

import pytest

from sangam.components.kfp_entrypoint import task as tasks
from sangam.components.kfp_entrypoint.invocation import Command
from sangam.components.kfp_entrypoint.task import Task
from sangam.components.kfp_entrypoint.told import Told
from sangam.components.kfp_entrypoint.uris import UriMapping
from sangam.components.record.journal import read_journal
from sangam.schemas.contracts.root import RunFolder


@pytest.mark.parametrize("has_launcher", [True, False])
def test_the_page_lies_where_the_launcher_takes_it_into_the_store_and_other_outputs_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_launcher: bool
) -> None:
    monkeypatch.setattr(tasks, "LAUNCHER", str(tmp_path / "pod"))
    key = "minio/mlpipeline/v2/run-1/reporter/salt"
    outputs = {}
    for name, kind in (("page", "system.HTML"), ("other", "tfx.Model")):
        place = tmp_path / "root" / key / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(name)
        outputs[name] = {"artifacts": [{"uri": str(place), "type": {"schemaTitle": kind}}]}
    mapping = UriMapping(str(tmp_path / "root"))
    local = {"inputs": {}, "outputs": {"artifacts": outputs, "outputFile": ""}}
    step = Task("reporter", Command("m", ()), local, mapping, run="run-1", date="", pods=1, notes=None)
    (tmp_path / "pod" / key).mkdir(parents=True) if has_launcher else None
    tasks._hand_to_launcher(step)
    copied = {file.name: file.read_text() for file in (tmp_path / "pod").rglob("*") if file.is_file()}
    assert copied == ({"page": "page"} if has_launcher else {})


def test_a_task_gives_signs_of_life_until_it_ends(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run-1")
    with Told(run, "small", "pusher", beat_s=0.01) as told:
        told.began("2024-03-07")
        told.tries("infra_validator")
        began = time.time()
        while (heard_at := read_journal(run).heard_at or 0.0) < began + 0.05 and time.time() < began + 10:
            time.sleep(0.01)
        assert told.ended("rank 1 was lost", time.time()) == "infra_validator"
    noted = read_journal(run)
    assert heard_at >= began + 0.05
    assert (noted.ranker, noted.date, noted.steps["infra_validator"].error) == (
        "small",
        "2024-03-07",
        "rank 1 was lost",
    )

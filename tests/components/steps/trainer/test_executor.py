"""What the trainer's step asks of a training job, and what it notes on the checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry.base import Base
from sangam.schemas.contracts.monitoring import variables
from sangam.schemas.contracts.statistics import FILE_NAME, Statistics
from sangam.schemas.contracts.training_job import TrainJob, read_job, write_job
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import digest
from sangam.schemas.spec.monitoring import Monitoring
from tests.components.examples.sample_files import write_examples
from tests.components.steps.trainer.sample_artifacts import EXAMPLES, Artifacts, step_artifacts
from tests.errors import place_and_value
from tests.paths import SPECS

pytestmark = pytest.mark.slow

RANKER = load_spec(SPECS / "short_video.yaml").ranker()


def report(base: Base | None) -> Any:
    from sangam.components.reports.ingestion import IngestionReport

    days = {"train": ["2024-03-02", "2024-03-03"], "eval": ["2024-03-04"]}
    return IngestionReport(date="2024-03-04", days=days, missing_days=[], splits={}, base=base)


def artifacts(root: Path) -> tuple[Artifacts, Artifacts]:
    inputs, outputs = step_artifacts(root, root)
    for key in EXAMPLES:
        write_examples(root / key, {"train": {"2024-03-02": [], "2024-03-03": []}, "eval": {"2024-03-04": []}})
    statistics = Statistics(code="c", features={}, changed=("hour", "price"))
    (root / "transform_graph").mkdir()
    (root / "transform_graph" / FILE_NAME).write_text(statistics.model_dump_json())
    return inputs, outputs


def job_of(root: Path, base: Base | None, pipeline_root: str = "") -> tuple[TrainJob, Artifacts, Artifacts]:
    from sangam.components.steps.trainer.executor import _job

    inputs, outputs = artifacts(root)
    properties = {"ranker": RANKER.model_dump_json(), "pipeline_root": pipeline_root or str(root), "code": "c"}
    return _job(RANKER, report(base), inputs, outputs, properties, root / "logs"), inputs, outputs


@pytest.fixture
def base(tmp_path: Path) -> Base:
    uri = str(tmp_path / "base")
    return Base(
        model_uri="model",
        checkpoint_uri=uri,
        days=("2024-02-29", "2024-03-01"),
        transform_graph_uri="graph",
        inputs_digest="i",
        checkpoint_sha256="",
        transform_graph_sha256="",
    )


def test_the_job_starts_from_the_base_and_is_read_by_the_trainers_processes(tmp_path: Path, base: Base) -> None:
    job, _, _ = job_of(tmp_path, base)
    file = tmp_path / "job.json"
    write_job(file, job)
    read = read_job(file)
    assert (read, read.ranker) == (job, RANKER)
    assert read.base_checkpoint == str(tmp_path / "base" / "checkpoint")
    assert read.changed_features == ("hour", "price")
    assert read.days == ("2024-03-02", "2024-03-03")
    assert read.final_checkpoint == str(tmp_path / "checkpoint" / "checkpoint")
    assert Path(read.checkpoint_dir).parent == tmp_path / "checkpoints" / "short_video"


def test_the_job_reads_raw_examples_unless_they_were_transformed_ahead(tmp_path: Path) -> None:
    from sangam.components.steps.trainer.executor import _job

    ahead, inputs, outputs = job_of(tmp_path, None)
    properties = {"ranker": RANKER.model_dump_json(), "pipeline_root": str(tmp_path), "code": "c"}
    del inputs["transformed_examples"]
    raw = _job(RANKER, report(None), inputs, outputs, properties, tmp_path / "logs")
    assert (ahead.transform, raw.transform) == ("ahead", "in_pool")
    days = ("2024-03-02", "2024-03-03")
    for job, key in ((ahead, "transformed_examples"), (raw, "examples")):
        assert job.train_files == tuple(
            str(tmp_path / f"{key}-days" / day / f"examples-{day}-00000-00000.blocks") for day in days
        )
    assert ahead.check_files == raw.check_files
    assert ahead.checkpoint_dir != raw.checkpoint_dir


def test_a_training_from_a_base_takes_its_own_number_of_epochs(tmp_path: Path, base: Base) -> None:
    from sangam.components.steps.trainer.executor import _with_epochs

    training = RANKER.training.model_copy(update={"mode": "incremental", "epochs": 3, "incremental_epochs": 1})
    ranker = RANKER.model_copy(update={"training": training})
    assert _with_epochs(ranker, has_base=True).training.epochs == 1
    assert _with_epochs(ranker, has_base=False).training.epochs == 3
    assert _with_epochs(RANKER, has_base=True) == RANKER


def test_without_a_base_training_starts_from_nothing(tmp_path: Path) -> None:
    job = job_of(tmp_path, None)[0]
    assert (job.base_checkpoint, job.changed_features) == ("", ())


def test_checkpoints_on_the_way_lie_on_this_machine_where_the_root_is_an_object_store(tmp_path: Path) -> None:
    directory = job_of(tmp_path, None, "s3://bucket/root")[0].checkpoint_dir
    assert Path(directory).is_relative_to(tmp_path / "logs")


def test_the_checkpoint_says_all_days_it_has_learned_from_and_what_it_belongs_to(tmp_path: Path, base: Base) -> None:
    from sangam.components.steps.trainer.executor import _describe

    job, inputs, outputs = job_of(tmp_path, base)
    [checkpoint] = outputs["checkpoint"]
    inputs["transform_graph"][0].set_string_custom_property("sha256", "g1")
    days = ["2024-02-29", "2024-03-01", "2024-03-02", "2024-03-03"]
    _describe(checkpoint, job, report(base), days, inputs)
    found = {name: checkpoint.get_string_custom_property(name) for name in ("days", "base", "transform_graph")}
    assert json.loads(found["days"]) == days
    assert found["base"] == str(tmp_path / "base")
    assert found["transform_graph"] == str(tmp_path / "transform_graph")
    assert checkpoint.get_string_custom_property("inputs_digest") == digest(RANKER.inputs())
    assert checkpoint.get_string_custom_property("transform_graph_sha256") == "g1"


def test_a_graph_or_a_base_that_was_changed_is_refused_before_anything_starts(tmp_path: Path, base: Base) -> None:
    from sangam.components.registry import seal
    from sangam.components.registry.checkpoint import sha256_of_manifest
    from sangam.components.steps.trainer.executor import _refuse_changed

    inputs, _ = artifacts(tmp_path)
    [graph] = inputs["transform_graph"]
    graph.set_string_custom_property("sha256", seal.seal(graph.uri))
    checkpoint = tmp_path / "base" / "checkpoint" / "manifest.json"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("{}")
    blessed = base.model_copy(update={"checkpoint_sha256": sha256_of_manifest(base.checkpoint_uri)})
    _refuse_changed(report(blessed), inputs)
    checkpoint.write_text("{ }")
    with pytest.raises(UserError, match=place_and_value(f"{base.checkpoint_uri}/checkpoint", "(got sha256")):
        _refuse_changed(report(blessed), inputs)
    with Path(graph.uri, FILE_NAME).open("a") as file:
        file.write(" ")
    with pytest.raises(UserError, match=place_and_value("transform_graph", f"(got {FILE_NAME}")):
        _refuse_changed(report(None), inputs)


def test_where_metrics_are_served_is_told_by_the_environment_and_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.steps.trainer.executor import _monitored

    assert _monitored(str(tmp_path), tmp_path / "logs") is None
    for name, value in variables(Monitoring(port=9400)).items():
        monkeypatch.setenv(name, value)
    told = _monitored(str(tmp_path), tmp_path / "logs")
    assert told
    assert (told.host, told.port, told.targets) == ("127.0.0.1", 9400, str(tmp_path / "metrics"))
    in_store = _monitored("s3://bucket/root", tmp_path / "logs")
    assert in_store
    assert in_store.targets == str(tmp_path / "logs")
    job, _, _ = job_of(tmp_path, None)
    assert job.model_copy(update={"monitoring": told}).digest == job.digest

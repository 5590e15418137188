"""What a model has learned from: the ids of its days, and none of the days it is judged on, in every mode and order."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.components.registry.base import Base
from sangam.schemas.spec import Spec, digest
from sangam.schemas.spec.training import DeclaredOrder
from tests.beam_args import BEAM_ARGS
from tests.components.examples.sample_files import read_file
from tests.components.logs.sample_logs import write_days
from tests.schemas.sample_specs import changed

pytestmark = pytest.mark.slow

DAYS = [f"2024-03-0{number}" for number in range(2, 6)]
FIRST, SECOND, VALIDATION_DAY, EVAL_DAY = DAYS
ROWS_A_DAY = 20
STOPPING = {"task": "like"}


def spec(order: DeclaredOrder, stopping: dict[str, Any] | None) -> Spec:
    data = {"data.train_days": 3, "data.validation_days": 1, "training.epochs": 2}
    training = {"training.order": order, "training.early_stopping": stopping}
    cluster = {"cluster": {"ranks": 1, "data_workers": 0}}
    return Spec.model_validate_json(json.dumps(changed(data | training | cluster)))


def row(day: str, number: int) -> dict[str, Any]:
    """Returns a row all of whose ids are of its day alone."""
    ids = {"user_id": f"{day} {number}", "friend": f"{day} {number} friend", "tags": [day], "recent": [f"{day} recent"]}
    return ids | {"age": float(number), "like": number % 2, "rating": 1.0}


def artifact(kind: Any, uri: Path) -> Any:
    made = kind()
    made.uri = str(uri)
    return made


def made(root: Path, logs: Path, mode: str, base: Base | None) -> dict[str, list[Any]]:
    """Runs ingestion and Transform for the last day; returns their artifacts."""
    from tfx.types import standard_artifacts as kinds

    from sangam.components.steps.example_gen.executor import Executor as ExampleGen
    from sangam.components.steps.example_gen.start import Start
    from sangam.components.steps.schema_gen.executor import Executor as SchemaGen
    from sangam.components.steps.transform.executor import Executor as Transform

    declared = spec("time", STOPPING)
    inputs = declared.inputs().model_dump_json()
    examples = artifact(kinds.Examples, root / "examples")
    properties = {
        "logs": declared.data.model_dump_json(),
        "inputs": inputs,
        "date": EVAL_DAY,
        "data_root": str(logs),
        "name": "small",
        "mode": mode,
        "pipeline_root": str(root),
        "start": Start(base=base).model_dump_json(),
        "code": "",
    }
    ExampleGen(ExampleGen.Context(beam_pipeline_args=list(BEAM_ARGS))).Do({}, {"examples": [examples]}, properties)
    schema = artifact(kinds.Schema, root / "schema")
    SchemaGen().Do({}, {"schema": [schema]}, {"inputs": inputs})
    graph = artifact(kinds.TransformGraph, root / "graph")
    transformed = artifact(kinds.Examples, root / "transformed")
    Transform(Transform.Context(beam_pipeline_args=list(BEAM_ARGS))).Do(
        {"examples": [examples], "schema": [schema]},
        {"transform_graph": [graph], "transformed_examples": [transformed]},
        {
            "preprocessing_fn": "sangam.trainer_module.transforms.preprocessing.preprocessing_fn",
            "inputs": inputs,
            "code": "",
        },
    )
    return {"examples": [examples], "transformed_examples": [transformed], "transform_graph": [graph]}


def trained(root: Path, inputs: dict[str, list[Any]], declared: Spec) -> Path:
    """Trains as the trainer's step does; returns the final checkpoint."""
    from tfx.types import standard_artifacts as kinds

    from sangam.components.registry.checkpoint import RankerCheckpoint
    from sangam.components.reports.artifact_files import read_ingestion
    from sangam.components.steps.trainer.executor import _job
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.training import train

    made_of = {"model": kinds.Model, "training": kinds.ModelRun, "checkpoint": RankerCheckpoint}
    outputs = {key: [artifact(kind, root / key)] for key, kind in made_of.items()}
    ranker = declared.ranker()
    report = read_ingestion(inputs["examples"][0].uri)
    properties = {"ranker": ranker.model_dump_json(), "pipeline_root": str(root), "code": "c"}
    job = _job(ranker, report, inputs, outputs, properties, root / "logs")
    for folder in (job.log_dir, job.output_dir, job.checkpoint_dir, Path(job.final_checkpoint).parent):
        Path(folder).mkdir(parents=True, exist_ok=True)
    collectives.start()
    train(job, "", "0", rank=0, ranks=1)
    return Path(job.final_checkpoint)


def keys_by_day(inputs: dict[str, list[Any]]) -> dict[str, set[int]]:
    """Returns the keys in the transformed examples of each day."""
    from sangam.components.examples.listing import read_listing

    listing = read_listing(inputs["transformed_examples"][0].uri)
    found: dict[str, set[int]] = {}
    for day in (day for days in listing.splits.values() for day in days):
        rows = [row for file in day.files for row in read_file(file)]
        found[str(day.day)] = {key for row in rows for values in row.values() for key in values if isinstance(key, int)}
    return found


def learned(checkpoint: Path, keys: dict[str, set[int]]) -> set[str]:
    """Returns the days that a checkpoint has rows of; all of their ids or none, and no id of no day."""
    held = set(np.concatenate([np.load(file) for file in checkpoint.glob("rank-*.keys.npy")]).tolist())
    days = {day for day, of_day in keys.items() if of_day & held}
    assert held == set().union(*(keys[day] for day in days))
    return days


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    write_days(root, "parquet", {day: [row(day, number) for number in range(ROWS_A_DAY)] for day in DAYS})
    return root


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory, logs: Path) -> dict[str, list[Any]]:
    return made(tmp_path_factory.mktemp("window"), logs, "full", None)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, window: dict[str, list[Any]]) -> Path:
    return trained(tmp_path_factory.mktemp("plain"), window, spec("time", None))


def test_the_days_of_the_examples_are_told_apart(window: dict[str, list[Any]]) -> None:
    keys = keys_by_day(window)
    assert sorted(keys) == DAYS
    assert [len(of_day) for of_day in keys.values()] == [2 * ROWS_A_DAY + 2] * 4
    assert len(set().union(*keys.values())) == 4 * (2 * ROWS_A_DAY + 2)


@pytest.mark.long
def test_a_plain_training_learns_from_the_train_days_alone(window: dict[str, list[Any]], plain: Path) -> None:
    assert learned(plain, keys_by_day(window)) == {FIRST, SECOND}


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "refit", "days"),
    [("shuffled", False, {FIRST, SECOND}), ("shuffled_within_day", True, {FIRST, SECOND, VALIDATION_DAY})],
)
def test_early_stopping_learns_from_the_validation_day_in_a_refit_alone(
    tmp_path: Path, window: dict[str, list[Any]], order: DeclaredOrder, refit: bool, days: set[str]
) -> None:
    checkpoint = trained(tmp_path, window, spec(order, STOPPING | {"refit": refit}))
    assert learned(checkpoint, keys_by_day(window)) == days


@pytest.mark.long
def test_an_incremental_training_learns_from_the_days_after_its_base(
    tmp_path: Path, logs: Path, window: dict[str, list[Any]], plain: Path
) -> None:
    [graph] = window["transform_graph"]
    base = Base(
        # A checkpoint of both train days that claims to know the first one alone: the second one is new to it.
        model_uri="model",
        checkpoint_uri=str(plain.parent),
        days=(FIRST,),
        transform_graph_uri=graph.uri,
        inputs_digest=digest(spec("time", None).inputs()),
        checkpoint_sha256="",
        transform_graph_sha256=graph.get_string_custom_property("sha256"),
    )
    new = made(tmp_path / "new", logs, "incremental", base)
    assert sorted(keys_by_day(new)) == [SECOND, VALIDATION_DAY, EVAL_DAY]
    checkpoint = trained(tmp_path, new, spec("time", STOPPING | {"refit": True}))
    assert learned(checkpoint, keys_by_day(window)) == {FIRST, SECOND, VALIDATION_DAY}


def test_a_search_compares_its_trials_by_days_that_none_has_seen(tmp_path: Path, window: dict[str, list[Any]]) -> None:
    from sangam.components.examples.listing import read_listing
    from sangam.pipelines.tune.training import Examples, job_of

    listing = read_listing(window["transformed_examples"][0].uri)
    files = {split: listing.files(split) for split in ("train", "validation")}
    examples = Examples(
        run="r",
        train_files=files["train"],
        validation_files=files["validation"],
        transform_graph="",
        days=(FIRST, SECOND),
    )
    job = job_of(tmp_path, spec("auto", STOPPING | {"refit": True, "per_epoch": 4}), examples)
    stopping = job.ranker.training.early_stopping
    assert stopping
    assert (stopping.refit, stopping.per_epoch, job.ranker.training.order, job.refit_days) == (False, 1, None, ())
    assert not [file for file in (*job.train_files, *job.validation_files, *job.check_files) if EVAL_DAY in file]

"""The section `beam`: where steps run, what is refused, and that it changes no digest."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.problems import SpecError
from sangam.schemas.spec import digest
from sangam.schemas.spec.beam import Flink, Local, Portable, engine_of
from tests.errors import tells
from tests.schemas.sample_specs import loaded

FLINK = {"runner": "flink", "master": "flink:8081"}
DATAFLOW = {
    "runner": "dataflow",
    "project": "p1-x",
    "region": "europe-west4",
    "temp_location": "gs://bucket/temporary",
    "image": "registry.example/sangam:1",
}


def beam(**fields: Any) -> dict[str, Any]:
    return {"beam": fields}


def test_steps_run_in_their_own_process_unless_the_spec_says_otherwise(tmp_path: Path) -> None:
    assert engine_of(loaded(tmp_path).beam, "transform") == loaded(tmp_path).beam
    assert (loaded(tmp_path).beam.runner, loaded(tmp_path).beam.model_dump()["processes"]) == ("local", 1)


def test_a_step_may_run_elsewhere_than_the_others(tmp_path: Path) -> None:
    own = {"evaluator": {"runner": "local", "processes": 4}, "transform": {**FLINK, "parallelism": 8}}
    spec = loaded(tmp_path, beam(runner="portable", job_endpoint="jobs:8073", steps=own))
    assert engine_of(spec.beam, "evaluator") == Local(processes=4)
    transform, others = engine_of(spec.beam, "transform"), engine_of(spec.beam, "example_gen")
    assert isinstance(transform, Flink)
    assert (transform.parallelism, transform.worker_pool) == (8, "localhost:50000")
    assert isinstance(others, Portable)
    assert others.job_endpoint == "jobs:8073"


@pytest.mark.parametrize("section", [FLINK, DATAFLOW, {"processes": 3}], ids=str)
def test_where_a_step_runs_changes_no_digest(tmp_path: Path, section: dict[str, Any]) -> None:
    before, after = loaded(tmp_path), loaded(tmp_path, beam(**section))
    assert after.beam != before.beam
    assert digest(after) == digest(before)
    assert digest(after.ranker()) == digest(before.ranker())


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        (beam(runner="dask"), "beam.runner", "(got 'dask') ... merges the outputs"),
        (beam(runner="DirectRunner"), "beam.runner", "(got 'DirectRunner') ... downloads"),
        (beam(runner="prism"), "beam.runner", "(got 'prism') ... 'portable'"),
        (beam(runner="flink"), "beam.master", "is missing"),
        (beam(runner="flink", master="[auto]"), "beam.master", "(got '[auto]')"),
        (beam(runner="flink", master="https://me:secret@flink:443"), "beam.master", "(got"),
        (beam(**FLINK, worker_pool="localhost"), "beam.worker_pool", "(got 'localhost')"),
        (beam(**FLINK, worker_pool="localhost:99999"), "beam.worker_pool", "(got 'localhost:99999')"),
        (beam(**FLINK, parallelism=0), "beam.parallelism", "(got 0)"),
        (beam(**FLINK, jar="beam.jar"), "beam.jar", "(got 'beam.jar')"),
        (beam(**FLINK, processes=2), "beam.processes", "(got 2)"),
        (beam(runner="portable", job_endpoint="http://jobs:8099"), "beam.job_endpoint", "(got 'http://jobs:8099')"),
        (beam(runner="spark", job_endpoint="jobs:1", timeout_s=0), "beam.timeout_s", "(got 0)"),
        (beam(**DATAFLOW | {"temp_location": "/tmp"}), "beam.temp_location", "(got '/tmp') ... gs://"),
        (beam(**DATAFLOW, service_account="me"), "beam.service_account", "(got 'me')"),
        (beam(runner="local", steps={"trainer": FLINK}), "beam.steps.trainer", "(got 'trainer')"),
        (
            beam(runner="local", steps={"transform": {"runner": "local"}}),
            "beam.steps.transform",
            "(got runner local)",
        ),
        (
            beam(
                **FLINK,
                steps={
                    step: {"runner": "local"} for step in ("example_gen", "statistics_gen", "transform", "evaluator")
                },
            ),
            "beam.runner",
            "(got flink)",
        ),
    ],
    ids=str,
)
def test_mistakes_are_told(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as error:
        loaded(tmp_path, changes)
    assert tells(str(error.value), place, value)


def test_steps_that_share_a_process_share_an_engine(tmp_path: Path) -> None:
    group = [["schema_gen", "statistics_gen", "example_validator", "transform"]]
    changes = {**beam(**FLINK), "cluster": {"share_processes": group}}
    loaded(tmp_path, changes)
    changes["beam"] = {**FLINK, "steps": {"transform": {"runner": "local"}}}
    with pytest.raises(SpecError) as error:
        loaded(tmp_path, changes)
    assert tells(str(error.value), "cluster.share_processes[0]", "(got statistics_gen: flink, transform: local)")

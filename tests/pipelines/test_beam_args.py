"""Beam's arguments of each engine: no runner that is downloaded, no secret, no reading that is known to fail."""

import pytest

from sangam.pipelines.beam import engine_args, step_args
from sangam.schemas.spec.beam import AnyEngine, Dataflow, Flink, FlinkBeam, Local, Portable, Spark
from tests.beam_args import BEAM_ARGS

DATAFLOW = Dataflow(
    runner="dataflow", project="p1-x", region="europe-west4", temp_location="gs://bucket/t", image="sangam:1"
)
ENGINES: list[AnyEngine] = [
    Local(),
    Local(processes=4),
    Flink(runner="flink", master="flink:8081"),
    Portable(runner="portable", job_endpoint="jobs:8073"),
    Spark(runner="spark", job_endpoint="jobs:8099"),
    DATAFLOW,
]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.runner)
def test_no_engine_is_beams_own_choice_or_a_download(engine: AnyEngine) -> None:
    given = engine_args(engine)
    [runner] = [word.partition("=")[2] for word in given if word.startswith("--runner=")]
    # DirectRunner and PrismRunner download a program, FlinkRunner without a jar and SparkRunner a job server.
    assert runner in ("FnApiRunner", "FlinkRunner", "PortableRunner", "DataflowRunner")
    assert not [word for word in given if "prism" in word.lower() or "direct_runner" in word.lower()]
    assert [word for word in given if word.startswith("--sdk_container_image=")]
    assert not [word for word in given if "pre_optimize" in word or "deprecated_read" in word]


def test_flink_gets_one_jar_over_rest_and_takes_workers_from_the_pool() -> None:
    assert engine_args(Flink(runner="flink", master="flink:8081", parallelism=6, timeout_s=60)) == (
        "--runner=FlinkRunner",
        "--flink_master=flink:8081",
        "--flink_submit_uber_jar",
        "--flink_job_server_jar=/opt/sangam/beam-flink-job-server.jar",
        "--parallelism=6",
        "--environment_type=EXTERNAL",
        "--environment_config=localhost:50000",
        "--sdk_container_image=unused",
        "--sangam_timeout_s=60",
    )


def test_spark_and_portable_differ_in_nothing_that_beam_is_told() -> None:
    spark = Spark(runner="spark", job_endpoint="jobs:1", worker_pool="pool:2")
    assert engine_args(spark) == engine_args(Portable(runner="portable", job_endpoint="jobs:1", worker_pool="pool:2"))
    assert "--environment_config=pool:2" in engine_args(spark)


def test_dataflow_gets_its_container_and_no_pool() -> None:
    more = DATAFLOW.model_copy(update={"service_account": "a@p.iam.gserviceaccount.com", "max_workers": 9})
    assert {"--sdk_container_image=sangam:1", "--max_num_workers=9"} <= set(engine_args(more))
    assert "--service_account_email=a@p.iam.gserviceaccount.com" in engine_args(more)
    assert not [word for word in engine_args(more) if "environment" in word]


def test_only_engines_have_a_time_limit_of_ours() -> None:
    limited = [
        engine.runner for engine in ENGINES if any("--sangam_timeout_s=" in word for word in engine_args(engine))
    ]
    assert limited == ["flink", "portable", "spark", "dataflow"]


def test_a_step_of_its_own_has_all_arguments_of_its_engine() -> None:
    beam = FlinkBeam(runner="flink", master="flink:8081", steps={"transform": Local()})
    args = step_args(beam)
    assert args["transform"] == BEAM_ARGS
    assert args["example_gen"] == args["statistics_gen"] == args["evaluator"] == engine_args(ENGINES[2])

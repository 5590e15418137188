"""The arguments of Beam for each step that uses it, from the spec's section `beam`. Loads without Beam."""

from collections.abc import Iterator, Mapping
from typing import get_args

from sangam.schemas.spec.beam import (
    AnyBeam,
    AnyEngine,
    BeamStepName,
    Dataflow,
    Flink,
    Local,
    Portable,
    Spark,
    engine_of,
)

StepArgs = Mapping[BeamStepName, tuple[str, ...]]

# TFX would otherwise build a source distribution of itself for every step, which takes seconds each
# (tfx/dsl/components/base/base_beam_executor.py). No engine but Dataflow reads it: pools start workers of their own.
_NO_PACKAGE = "--sdk_container_image=unused"


def step_args(beam: AnyBeam) -> StepArgs:
    """Returns all arguments of each step. Compiled pipelines contain them as plain text: none is secret."""
    return {name: engine_args(engine_of(beam, name)) for name in get_args(BeamStepName)}


def engine_args(engine: AnyEngine) -> tuple[str, ...]:
    """Returns the arguments of a step on an engine.

    Beam's default, `DirectRunner`, is never used: it first tries to download a Prism binary, without a checksum or a
    time-out (apache_beam/runners/direct/direct_runner.py). FnApiRunner is its fallback.
    """
    match engine:
        case Local(processes=1):
            # On a few cores, Beam's other modes cost more than they gain.
            return ("--runner=FnApiRunner", "--direct_running_mode=in_memory", "--direct_num_workers=1", _NO_PACKAGE)
        case Local(processes=processes):
            mode = "--direct_running_mode=multi_processing"
            return ("--runner=FnApiRunner", mode, f"--direct_num_workers={processes}", _NO_PACKAGE)
        case Flink():
            # One jar with all dependencies, submitted over REST: the cluster needs no job server. The experiment
            # `pre_optimize` keeps its default: Flink rejects the reads that it produces.
            return (
                "--runner=FlinkRunner",
                f"--flink_master={engine.master}",
                "--flink_submit_uber_jar",
                f"--flink_job_server_jar={engine.jar}",
                f"--parallelism={engine.parallelism}",
                *_pooled(engine),
            )
        case Portable() | Spark():
            return ("--runner=PortableRunner", f"--job_endpoint={engine.job_endpoint}", *_pooled(engine))
        case Dataflow():
            return (
                "--runner=DataflowRunner",
                f"--project={engine.project}",
                f"--region={engine.region}",
                f"--temp_location={engine.temp_location}",
                f"--sdk_container_image={engine.image}",
                *([f"--service_account_email={engine.service_account}"] if engine.service_account else []),
                *([f"--max_num_workers={engine.max_workers}"] if engine.max_workers else []),
                _limit(engine),
            )


def _pooled(engine: Flink | Portable | Spark) -> tuple[str, ...]:
    pool = ("--environment_type=EXTERNAL", f"--environment_config={engine.worker_pool}")
    return (*pool, _NO_PACKAGE, _limit(engine))


def _limit(engine: Flink | Portable | Spark | Dataflow) -> str:
    """Returns Sangam's own argument, which tells `sangam.components.beam` that a step runs on an engine."""
    return f"--sangam_timeout_s={engine.timeout_s}"


def unreachable(place: str, folders: Mapping[str, str]) -> Iterator[str]:
    """Yields an error for each folder that Dataflow's workers cannot read or write.

    Args:
        place: path of the section for Dataflow in the spec.
        folders: path or URI of each option.
    """
    for option, folder in folders.items():
        # Vertex AI mounts buckets there.
        if not folder.startswith(("gs://", "/gcs/")):
            yield (
                f"{option}: Dataflow's workers see Cloud Storage alone (got {folder} and {place}: dataflow); "
                "gs://<bucket>/<folder> on Vertex AI, or another runner"
            )

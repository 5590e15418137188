"""Engines of the steps that use Beam: the step's own process, or a cluster. They change no result."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sangam.schemas.parts.base import FrozenModel, PositiveInt
from sangam.schemas.spec.addresses import HostPort, is_host_port
from sangam.schemas.spec.kubernetes_names import AbsolutePath, Image

BeamStepName = Literal["example_gen", "statistics_gen", "transform", "evaluator"]
"""The steps that use Beam."""

_JAR = "/opt/sangam/beam-flink-job-server.jar"
_ACCOUNT = r"[a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com"


def _is_master(text: str) -> str:
    try:
        is_host_port(re.sub(r"^https?://", "", text))
    except ValueError:
        raise ValueError(
            "must be host:port of Flink's REST service, as in 'flink:8081' or 'https://flink:443', without a user name"
        ) from None
    return text


def _is_storage(text: str) -> str:
    if not re.fullmatch(r"gs://[a-z0-9][a-z0-9._-]{1,220}(/[A-Za-z0-9_.-]+)*", text):
        raise ValueError("must be a folder of Cloud Storage, as in 'gs://bucket/temporary'")
    return text


def _is_account(text: str) -> str:
    if not re.fullmatch(_ACCOUNT, text):
        raise ValueError("must be a service account, as in 'name@project.iam.gserviceaccount.com'")
    return text


def _is_word(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9:.-]{1,62}", text):
        raise ValueError("must be lower case letters, digits and -, starting with a letter")
    return text


def _with_runner(given: Any) -> Any:
    # A discriminator has no default of its own.
    return {"runner": "local", **given} if isinstance(given, Mapping) else given


Word = Annotated[str, AfterValidator(_is_word)]


class Local(FrozenModel):
    """Beam's runner in the step's own process."""

    runner: Literal["local"] = "local"
    processes: Annotated[int, Field(gt=0, le=256)] = 1
    """Worker processes of a step; 1: in memory. Each further one takes 10 s and 1 GB, so that only large days gain."""


class _Engine(FrozenModel):
    """Settings that all engines share."""

    timeout_s: PositiveInt = 2 * 3600
    """Time limit of all jobs of a step, in seconds. After it the running job is cancelled, and the step fails."""


class _Pooled(_Engine):
    """An engine whose Python workers come from Sangam's pool (`python -m sangam.components.beam.worker_pool`)."""

    worker_pool: HostPort = "localhost:50000"
    """Host and port of the worker pool, seen from the engine's processes; `localhost` for a pool beside each of
    them."""


class Flink(_Pooled):
    """A Flink cluster, to which the step submits its jobs over REST."""

    runner: Literal["flink"]
    master: Annotated[str, AfterValidator(_is_master)]
    """Host and port of the JobManager's REST service."""
    parallelism: PositiveInt = 1
    """Task slots of each job."""
    jar: AbsolutePath = _JAR
    """Path of Beam's job server for Flink in the image of the step. Beam never downloads it."""


class Portable(_Pooled):
    """Any engine with a Beam job service, for example prism."""

    runner: Literal["portable"]
    job_endpoint: HostPort
    """Host and port of the job service."""


class Spark(_Pooled):
    """A Spark cluster behind Beam's job server for Spark."""

    runner: Literal["spark"]
    job_endpoint: HostPort
    """Host and port of the job server."""


class Dataflow(_Engine):
    """Google Cloud Dataflow. Logs and pipeline root must be on Cloud Storage."""

    runner: Literal["dataflow"]
    project: Word
    """Id of the Google Cloud project."""
    region: Word
    """Region of the jobs, for example europe-west4."""
    temp_location: Annotated[str, AfterValidator(_is_storage)]
    """Cloud Storage folder for temporary files of the jobs."""
    image: Image
    """Image of the workers: the one of the pipeline."""
    service_account: Annotated[str, AfterValidator(_is_account)] | None = None
    """Service account of the workers. Left out: the project's default."""
    max_workers: PositiveInt | None = None
    """Most workers of a job. Left out: Dataflow's limit."""


AnyEngine = Local | Flink | Portable | Spark | Dataflow
Engine = Annotated[AnyEngine, Field(discriminator="runner"), BeforeValidator(_with_runner)]


class _Steps(FrozenModel):
    """Exceptions for single steps."""

    steps: dict[BeamStepName, Engine] = Field(default_factory=dict)
    """Engines of steps that do not use the engine of the section; each engine is written in full."""


class LocalBeam(Local, _Steps):
    """All steps in their own processes."""


class FlinkBeam(Flink, _Steps):
    """All steps on Flink."""


class PortableBeam(Portable, _Steps):
    """All steps on an engine with a job service."""


class SparkBeam(Spark, _Steps):
    """All steps on Spark."""


class DataflowBeam(Dataflow, _Steps):
    """All steps on Dataflow."""


AnyBeam = LocalBeam | FlinkBeam | PortableBeam | SparkBeam | DataflowBeam
Beam = Annotated[AnyBeam, Field(discriminator="runner"), BeforeValidator(_with_runner)]


def engine_of(beam: AnyBeam, name: BeamStepName) -> AnyEngine:
    """Returns the engine of a step: its own in `steps`, or that of the section."""
    return beam.steps.get(name, beam)

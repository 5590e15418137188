"""Where the steps that use Beam run: in the step's own process, or on an engine. It changes no result."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from schemas.spec.addresses import HostPort, is_host_port
from schemas.spec.base import FrozenModel, PositiveInt
from schemas.spec.kubernetes_names import AbsolutePath, Image

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


Word = Annotated[str, AfterValidator(_is_word)]


class Local(FrozenModel):
    """Beam's runner in the step's own process."""

    runner: Literal["local"] = "local"
    processes: Annotated[int, Field(gt=0, le=256)] = 1
    """1: in memory. More: this many worker processes; each takes 10 s and 1 GB more, so that only large days gain."""


class _Engine(FrozenModel):
    """Settings of every engine."""

    timeout_s: PositiveInt = 2 * 3600
    """Time for all jobs of a step on the engine. Then the running job is cancelled, and the step fails."""


class _Pooled(_Engine):
    """An engine whose Python workers come from a pool of ours (`python -m components.beam.worker_pool`)."""

    worker_pool: HostPort = "localhost:50000"
    """The pool, as the engine's own processes reach it: beside each of them, `localhost`."""


class Flink(_Pooled):
    """A Flink cluster, to which the step submits its jobs over REST."""

    runner: Literal["flink"]
    master: Annotated[str, AfterValidator(_is_master)]
    """Host and port of the JobManager's REST service."""
    parallelism: PositiveInt = 1
    """Task slots of each job."""
    jar: AbsolutePath = _JAR
    """Beam's job server for Flink, in the image of the step. Beam never downloads it."""


class Portable(_Pooled):
    """Any engine with a job service of Beam's, for example prism."""

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
    region: Word
    temp_location: Annotated[str, AfterValidator(_is_storage)]
    """Folder for files of jobs."""
    image: Image
    """The pipeline's image, which the workers run."""
    service_account: Annotated[str, AfterValidator(_is_account)] | None = None
    """Of the workers. Left out: the project's default."""
    max_workers: PositiveInt | None = None


AnyEngine = Local | Flink | Portable | Spark | Dataflow
Engine = Annotated[AnyEngine, Field(discriminator="runner")]


class _Steps(FrozenModel):
    """What the section says beside the engine of all steps."""

    steps: dict[BeamStepName, Engine] = Field(default_factory=dict)
    """Steps that run elsewhere; each engine is given whole."""


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
Beam = Annotated[AnyBeam, Field(discriminator="runner")]


def engine_of(beam: AnyBeam, name: BeamStepName) -> AnyEngine:
    """Returns where a step runs: as `steps` says, or as all steps do."""
    return beam.steps.get(name, beam)

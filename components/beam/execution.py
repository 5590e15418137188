"""The pipelines of a step's executor: in this process as in TFX, or as jobs on an engine."""

import os
import time
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions, StandardOptions
from tfx.dsl.components.base import base_beam_executor

from sangam.components.beam.code_version import code_version
from sangam.components.beam.job import Job
from sangam.components.beam.options import CODE, EngineOptions
from sangam.schemas.errors import UserError
from sangam.schemas.host.environment import keep_off_proxy


class BeamExecutor(base_beam_executor.BaseBeamExecutor):
    """An executor whose pipelines end with the step, and within the time that the spec allows.

    It precedes TFX's executor among the base classes.
    """

    _deadline: float | None = None

    def _make_beam_pipeline(self) -> Any:
        limit_s = PipelineOptions(self._beam_pipeline_args).view_as(EngineOptions).sangam_timeout_s
        if limit_s is None:
            return super()._make_beam_pipeline()
        if self._deadline is None:
            # All pipelines of the step share the deadline.
            self._deadline = time.monotonic() + limit_s
        return EnginePipeline(self._beam_pipeline_args, self._deadline, limit_s)


def pipeline_of(args: Sequence[str]) -> beam.Pipeline:
    """Returns a pipeline outside a step of TFX: in this process, or a job on an engine with the spec's time limit."""
    limit_s = PipelineOptions(args).view_as(EngineOptions).sangam_timeout_s
    if limit_s is None:
        return beam.Pipeline(argv=list(args))
    return EnginePipeline(args, time.monotonic() + limit_s, limit_s)


class EnginePipeline(beam.Pipeline):
    """A pipeline that runs as a job on an engine."""

    def __init__(self, args: Sequence[str], deadline: float, limit_s: int) -> None:
        """Takes Beam's arguments, the time on the monotonic clock when the job must have ended, and the limit."""
        _require_jar(args)
        keep_off_proxy(os.environ, *_hosts(args))
        super().__init__(argv=[*args, f"--{CODE}={code_version()}"])
        self._deadline, self._limit_s = deadline, limit_s

    def run(self, test_runner_api: bool | str = "AUTO") -> Any:
        """Runs the job to its end."""
        runner = self.options.view_as(StandardOptions).runner.removesuffix("Runner").lower()
        job = Job(lambda: super(EnginePipeline, self).run(test_runner_api), runner)
        return job.run(self._deadline - time.monotonic(), self._limit_s)


def _hosts(args: Sequence[str]) -> list[str]:
    """Returns the host of the engine, which Beam would connect to through a proxy of the environment."""
    options = PipelineOptions(args)
    addresses = (options.view_as(FlinkRunnerOptions).flink_master, options.view_as(PortableOptions).job_endpoint)
    return [address.split("://")[-1].rpartition(":")[0] for address in addresses if address and ":" in address]


def _require_jar(args: Sequence[str]) -> None:
    """Refuses a missing jar: Beam would download one."""
    options = PipelineOptions(args)
    if options.view_as(StandardOptions).runner != "FlinkRunner":
        return
    jar = options.view_as(FlinkRunnerOptions).flink_job_server_jar
    if not jar or not os.path.isfile(jar):
        raise UserError(
            f"beam.jar: no such file (got {jar}); put Beam's job server for Flink there: infra/README.md says how it "
            "gets into the image. It is never downloaded"
        )

"""Sangam's arguments, declared to Beam's parser so that they reach the workers."""

from argparse import ArgumentParser

from apache_beam.options.pipeline_options import PipelineOptions

CODE = "sangam_code"
"""Version of the code that submitted a job; `sangam.components.beam.worker` compares it with its own."""


class EngineOptions(PipelineOptions):
    """Settings of a step on an engine; `sangam.pipelines.beam` writes them."""

    @classmethod
    def _add_argparse_args(cls, parser: ArgumentParser) -> None:
        parser.add_argument("--sangam_timeout_s", type=int, help="Time for all jobs of a step; none: no engine.")
        parser.add_argument(f"--{CODE}", help="Version of the code.")

"""Steps of one pipeline each, which need no data."""

import time
from collections.abc import Sequence
from typing import Any

import apache_beam as beam

from sangam.components.beam.execution import BeamExecutor
from sangam.schemas.quantities import parse_bytes


def executor(args: Sequence[str], kind: type[BeamExecutor]) -> Any:
    """Returns an executor with Beam's arguments."""
    return kind(kind.Context(beam_pipeline_args=list(args)))


class Sleeping(BeamExecutor):
    """Takes as long as it is told."""

    def Do(self, input_dict: Any, output_dict: Any, exec_properties: dict[str, Any]) -> None:
        del input_dict, output_dict
        with self._make_beam_pipeline() as pipeline:
            _ = pipeline | beam.Create([exec_properties["seconds"]]) | beam.Map(time.sleep)


class OurCode(BeamExecutor):
    """Needs a function of ours in the worker."""

    def Do(self, input_dict: Any, output_dict: Any, exec_properties: dict[str, Any]) -> None:
        del input_dict, output_dict, exec_properties
        with self._make_beam_pipeline() as pipeline:
            _ = pipeline | beam.Create(["memory"]) | beam.Map(parse_bytes, "1GiB")

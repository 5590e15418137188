"""Writes schema.pbtxt."""

import posixpath
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils

from sangam.components.steps.schema_gen.schema import schema_text
from sangam.schemas.spec import Inputs

FILE_NAME = "schema.pbtxt"
"""The file name that Transform and ExampleValidator expect."""


class Executor(base_executor.BaseExecutor):
    """Writes the schema of the spec's columns."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Writes the Schema artifact."""
        del input_dict
        uri = artifact_utils.get_single_uri(output_dict["schema"])
        text = schema_text(Inputs.model_validate_json(exec_properties["inputs"]))
        fileio.makedirs(uri)
        with fileio.open(posixpath.join(uri, FILE_NAME), "w") as file:
            file.write(text)

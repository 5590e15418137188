"""Runs the check again after a refusal: a busy machine may have caused it, so the cache must not repeat it."""

from typing import Any

from tfx.orchestration.portable import data_types
from tfx.types import standard_artifacts

from sangam.components.caching.driver import AddingDriver

MODEL = "model_uri"
"""Custom property of the blessing."""


class Driver(AddingDriver):
    """Adds the number of this model's refusals to the exec properties."""

    def added(self, execution_info: data_types.ExecutionInfo) -> dict[str, int]:
        """Counts the model's refusals in ML Metadata."""
        uri = execution_info.input_dict["model"][0].uri
        # Any: TFX's annotation is the type of an older driver's handle.
        metadata_handle: Any = self._metadata_handle
        with metadata_handle as handle:
            blessings = handle.store.get_artifacts_by_type(standard_artifacts.InfraBlessing.TYPE_NAME)
        return {"refusals": sum(_is_refusal(artifact, uri) for artifact in blessings)}


def _is_refusal(artifact: Any, model_uri: str) -> bool:
    properties = artifact.custom_properties
    return bool(properties[MODEL].string_value == model_uri and properties["blessed"].int_value == 0)

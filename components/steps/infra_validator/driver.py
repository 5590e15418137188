"""Lets a refusal be tried again: the cache must not repeat what a busy machine may have caused."""

from typing import Any

from tfx.orchestration.portable import data_types
from tfx.types import standard_artifacts

from components.caching.driver import AddingDriver

MODEL = "model_uri"
"""Custom property of the blessing."""


class Driver(AddingDriver):
    """Adds to the exec properties how often this very model was refused."""

    def added(self, execution_info: data_types.ExecutionInfo) -> dict[str, int]:
        """Asks ML Metadata."""
        uri = execution_info.input_dict["model"][0].uri
        # Any: TFX declares the older driver's handle, which this one is not.
        metadata_handle: Any = self._metadata_handle
        with metadata_handle as handle:
            known = handle.store.get_artifacts_by_type(standard_artifacts.InfraBlessing.TYPE_NAME)
        return {"refusals": sum(_is_refusal(artifact, uri) for artifact in known)}


def _is_refusal(artifact: Any, model_uri: str) -> bool:
    noted = artifact.custom_properties
    return bool(noted[MODEL].string_value == model_uri and noted["blessed"].int_value == 0)

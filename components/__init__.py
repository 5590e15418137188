"""The steps that TFX lacks."""

import importlib
from typing import Any

# Relative, so that the cache key of a step that knows one type does not depend on the others (components/caching).
_ARTIFACT_TYPES = {"RankerCheckpoint": ".registry.checkpoint", "RunPage": ".reports.page.artifact"}
"""Module of each type that KFP knows as `components.<type>`; nothing heavy is loaded before it is asked for."""


def __getattr__(name: str) -> Any:
    """Returns an artifact type."""
    if name not in _ARTIFACT_TYPES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ARTIFACT_TYPES[name], __name__), name)

"""The steps that TFX lacks."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Gives KFP the artifact type that it knows as `components.RankerCheckpoint`; nothing heavy is loaded before."""
    if name == "RankerCheckpoint":
        from components.registry.checkpoint import RankerCheckpoint

        return RankerCheckpoint
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

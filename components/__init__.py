"""The steps that TFX lacks."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """Gives KFP the artifact types that it knows as `components.<type>`; nothing heavy is loaded before."""
    # Relative, so that the cache key of a step that knows one type does not depend on the other (components/caching).
    match name:
        case "RankerCheckpoint":
            module = importlib.import_module(".registry.checkpoint", __name__)
        case "RunPage":
            module = importlib.import_module(".page.artifact", __name__)
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)

"""Sangam: daily training of recommender rankers.

The four packages lie at the top of the repository; here are links to them, so that a checkout and a wheel have one name
for each module, `sangam.schemas.spec`, which collides with nobody's `schemas` (infra/adr/0001-four-packages.md).
"""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """Gives `sangam.load`, and the artifact types that KFP knows as `sangam.<type>`; nothing heavy is loaded before."""
    # Relative, so that the cache key of a step that knows one type does not depend on the other (components/caching).
    match name:
        case "RankerCheckpoint":
            module = importlib.import_module(".components.registry.checkpoint", __name__)
        case "load":
            module = importlib.import_module(".components.model.model", __name__)
        case "RunPage":
            module = importlib.import_module(".components.page.artifact", __name__)
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)

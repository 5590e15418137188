"""Sangam: daily training of recommender rankers. `sangam.run`, `sangam.Root` and the rest: docs/python.md.

The four packages lie at the top of the repository; here are links to them, so that a checkout and a wheel have one name
for each module, `sangam.schemas.spec`, which collides with nobody's `schemas` (infra/adr/0001-four-packages.md).
"""

import importlib
from typing import Any

# Relative, and loaded on first use: a step's cache key must not depend on the API (components/caching), and
# `import sangam` loads nothing. `__init__.pyi` has the same names for editors and mypy.
_API = {
    "Client": ".pipelines.api.client",
    "Model": ".components.model.model",
    "Problem": ".schemas.problems",
    "Root": ".pipelines.api.root",
    "Run": ".pipelines.api.run",
    "RunFailed": ".pipelines.api.root",
    "Spec": ".pipelines.api.spec",
    "SpecError": ".schemas.problems",
    "UserError": ".schemas.errors",
    "client": ".pipelines.api.client",
    "load": ".components.model.model",
    "run": ".pipelines.api.running",
    "validate": ".pipelines.api.spec",
}
__all__ = sorted(_API)


def __getattr__(name: str) -> Any:
    """Gives the names of the API, and to KFP the artifact type that it knows as `sangam.<type>`."""
    match name:
        case "RankerCheckpoint":
            module = importlib.import_module(".components.registry.checkpoint", __name__)
        case _ if name in _API:
            module = importlib.import_module(_API[name], __name__)
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)


def __dir__() -> list[str]:
    """Returns the names of the API for completion."""
    return [*globals(), *_API]

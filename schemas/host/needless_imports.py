"""Packages that TensorFlow, TFX and Beam import wherever they find them, and do without."""

import importlib.util
import sys
from importlib.machinery import PathFinder
from types import ModuleType

_NEEDLESS = ("googleapiclient", "keras", "pandas", "scipy")
"""Imports that TensorFlow and TFRA do not need: 40 % of the start of a training, 30 % of an export or a server. Keras 3
imports matplotlib, scikit-learn and IPython in turn; Keras 2 is `tf_keras`."""
_NEEDLESS_TO_TFX = ("google.cloud.bigquery", "google.cloud.pubsub", "keras")
"""Imports that TFX and Beam do not need: no step of ours reads from a service of a cloud."""
_METRIC_OF_TEXTS = "tensorflow_model_analysis.metrics.rouge"
"""Import that TFMA does not need: it brings parsers of natural languages, a tenth of a start."""


def leave_out_needless() -> None:
    """Makes imports of these packages fail in this process as if they were not installed.

    Entry points call it before they import TensorFlow.
    """
    for name in _NEEDLESS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def leave_out_needless_of_tfx() -> None:
    """Does the same for a process that runs a pipeline: a third of its start.

    TFX names a constant of its own evaluator in each process, and for that would import all of its components, with
    the clients of Kubernetes and of Google's cloud: here each module of `tfx.components` is imported by itself.
    """
    for name in _NEEDLESS_TO_TFX:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    without = ModuleType(_METRIC_OF_TEXTS)
    without.__dict__["Rouge"] = None
    sys.modules.setdefault(_METRIC_OF_TEXTS, without)
    package = importlib.util.find_spec("tfx")
    found = package and PathFinder.find_spec("tfx.components", package.submodule_search_locations)
    if found:
        sys.modules.setdefault(found.name, importlib.util.module_from_spec(found))

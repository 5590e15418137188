"""The reporter's outputs on Kubeflow, of types that its own pages show.

The classes are found by the names of these types: `kfp_entrypoint.artifacts`.
"""

from tfx.types import artifact


class HTML(artifact.Artifact):
    """The page of a run: a file."""

    TYPE_NAME = "system.HTML"


class Metrics(artifact.Artifact):
    """Numbers by name, in the metadata."""

    TYPE_NAME = "system.Metrics"


class ClassificationMetrics(artifact.Artifact):
    """A ROC curve, in the metadata."""

    TYPE_NAME = "system.ClassificationMetrics"

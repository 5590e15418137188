"""The artifact of the page: the reporter's output on Kubeflow."""

from tfx.types import artifact


class RunPage(artifact.Artifact):
    """A folder with `report.html`."""

    # One lower-case word, a dot and a class, as `RankerCheckpoint`'s.
    TYPE_NAME = "sangam.RunPage"

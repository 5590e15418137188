"""Conditions in the status of a training job's object."""

from lightkube.core.schema import DictMixin, dataclass


@dataclass
class JobCondition(DictMixin):
    """A condition of an MPIJob or a JobSet."""

    type: str
    status: str
    reason: str = ""
    message: str = ""

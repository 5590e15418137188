"""The jobs that operators run: all have the pods of `training_pods`, in different envelopes.

Each kind is a class with its own `spec`; class variables hold the other differences.
"""

from typing import Any, ClassVar, Optional, Self

from lightkube.core.resource import NamespacedResourceG
from lightkube.core.schema import DictMixin, dataclass
from lightkube.models.meta_v1 import ObjectMeta, Time

from sangam.components.steps.trainer.kubernetes.run import TrainingRun
from sangam.components.steps.trainer.kubernetes.training_pods import TrainingPods

SECONDS_AFTER_FINISHED = 3600
"""Time to live of a job that has ended."""

# `Optional`, not `| None`, in this package's resources: lightkube converts only the former.


@dataclass
class JobCondition(DictMixin):
    """A condition of a job."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass
class JobStatus(DictMixin):
    """The status of a job."""

    completionTime: Optional[Time] = None  # noqa: UP045
    conditions: Optional[list[JobCondition]] = None  # noqa: UP045


@dataclass
class TrainingJob(NamespacedResourceG, DictMixin):
    """A job with the pods of coordinator and hosts.

    Attributes:
        index_field: field of a host's pod with the host's index.
        coordinator_suffix: suffix of the coordinator's batch/v1 Job, which the operator creates.
        done: type of the condition of a job that has succeeded.
        has_completion_time: whether conditions are final only together with a completion time.
        resumed: change of the spec that ends the suspension.
        is_removed: whether the cluster removes the job after its time to live; if not, only the coordinator's Job.
        replaces_failed_hosts: whether the operator replaces a host's failed pod.
    """

    apiVersion: Optional[str] = None  # noqa: UP045
    kind: Optional[str] = None  # noqa: UP045
    metadata: Optional[ObjectMeta] = None  # noqa: UP045
    status: Optional[JobStatus] = None  # noqa: UP045

    index_field: ClassVar[str]
    coordinator_suffix: ClassVar[str]
    done: ClassVar[str]
    has_completion_time: ClassVar[bool]
    resumed: ClassVar[dict[str, Any]]
    is_removed: ClassVar[bool]
    replaces_failed_hosts: ClassVar[bool]

    @classmethod
    def around(cls, run: TrainingRun, pods: TrainingPods) -> Self:
        """Returns the job of a run, suspended until the objects that its pods need exist."""
        raise NotImplementedError

    @classmethod
    def coordinator_job(cls, run: TrainingRun) -> str:
        """Returns the name of the coordinator's batch/v1 Job."""
        return f"{run.name}{cls.coordinator_suffix}"

    @property
    def is_suspended(self) -> bool:
        """Whether its pods are not to run yet."""
        raise NotImplementedError

    def final_conditions(self) -> list[JobCondition]:
        """Returns the conditions that are finally true."""
        if self.status is None or (self.has_completion_time and not self.status.completionTime):
            return []
        return [each for each in self.status.conditions or [] if each.status == "True"]

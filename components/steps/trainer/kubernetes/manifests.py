"""Renders all objects of a run as a pure function of the spec."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, TypeAlias

from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import Service
from lightkube.resources.networking_v1 import NetworkPolicy

from sangam.components.steps.trainer.kubernetes.envelope import TrainingJob
from sangam.components.steps.trainer.kubernetes.jobset import JobSet
from sangam.components.steps.trainer.kubernetes.mpijob import MPIJob
from sangam.components.steps.trainer.kubernetes.network import network_policy, services
from sangam.components.steps.trainer.kubernetes.run import DIGEST_ANNOTATION, TrainingRun
from sangam.components.steps.trainer.kubernetes.stateful_sets import parameter_servers, service_pool
from sangam.components.steps.trainer.kubernetes.training_pods import training_pods

_ENVELOPES: dict[str, type[TrainingJob]] = {"jobset": JobSet, "mpijob": MPIJob}
Dependent: TypeAlias = NetworkPolicy | Service | StatefulSet


@dataclass(frozen=True)
class Manifests:
    """The objects of a run.

    Attributes:
        job: job with coordinator and hosts; created suspended.
        prerequisites: objects that must exist before a pod starts; the network policy comes first.
        stateful_sets: parameter servers and the tf.data service; created last, when the job, which ends them, has a
            deadline.
        digest: digest of all objects; also an annotation of each.
    """

    job: TrainingJob
    prerequisites: tuple[NetworkPolicy | Service, ...]
    stateful_sets: tuple[StatefulSet, ...]
    digest: str

    @property
    def all(self) -> tuple[TrainingJob | Dependent, ...]:
        """All objects in the order of creation."""
        return (self.job, *self.prerequisites, *self.stateful_sets)


def render(run: TrainingRun) -> Manifests:
    """Returns the objects of a run."""
    envelope = _ENVELOPES[run.launch.launcher.kind]
    job = envelope.around(run, training_pods(run, envelope.index_field))
    prerequisites: tuple[NetworkPolicy | Service, ...] = (network_policy(run), *services(run))
    stateful_sets = (*parameter_servers(run), *service_pool(run))
    objects: list[TrainingJob | Dependent] = [job, *prerequisites, *stateful_sets]
    content = json.dumps([as_dict(each) for each in objects], sort_keys=True)
    manifests = Manifests(job, prerequisites, stateful_sets, hashlib.sha256(content.encode()).hexdigest())
    for each in manifests.all:
        assert each.metadata is not None
        each.metadata.annotations = {DIGEST_ANNOTATION: manifests.digest}
    return manifests


def as_dict(manifest: TrainingJob | Dependent) -> dict[str, Any]:
    """Returns a manifest in the form of the API."""
    definition = manifest._api_info.resource
    content: dict[str, Any] = manifest.to_dict()  # type: ignore[no-untyped-call]
    return {"apiVersion": definition.api_version, "kind": definition.kind, **content}

"""Creates, adopts and removes the objects of a run.

The job owns everything else, so that its removal is that of all: by the step, or without a step by its deadline and
its time to live.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from lightkube.core.resource import NamespacedResourceG
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod

from components.steps.trainer.kubernetes.api import Api
from components.steps.trainer.kubernetes.manifests import Dependent, Manifests, TrainingJob
from components.steps.trainer.kubernetes.mpijob import MPIJob
from components.steps.trainer.kubernetes.run import DIGEST_ANNOTATION, TrainingRun
from components.steps.trainer.kubernetes.verdict import coordinator_job, ended_job
from schemas.errors import UserError

_LOG = logging.getLogger(__name__)


class Objects:
    """The objects of one run."""

    def __init__(self, api: Api, run: TrainingRun, manifests: Manifests):
        self._api, self._run, self._manifests = api, run, manifests
        self._kind = type(manifests.job)

    async def start(self, *, before: Callable[[], None]) -> TrainingJob:
        """Creates all of them and lets the job start; returns it.

        A job of the same name and manifests is that of an earlier try of this step: it is adopted, unless it failed.
        One with others is of a step that is gone and wanted something else in the same folders: it is replaced.

        Args:
            before: called when nothing of a run is left and a new one is about to be created.

        Raises:
            UserError: the cluster does not let it be.
        """
        job = await self._claimed(before)
        if ended_job(job, meta_of(job).uid or "", {}) is None:
            anchor = await self._anchor(job)
            for surrounding in self._manifests.surroundings:
                await self._ensure(surrounding, anchor)
            await self._resume()
            for stateful_set in self._manifests.pool:
                await self._ensure(stateful_set, anchor)
        return job

    async def remove(self) -> bool:
        """Deletes the job and waits until nothing is left; returns whether that is so within `removal_s`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._api.timing.removal_s
        await self._api.delete(self._kind, self._run.name)
        while await self._api.get(self._kind, self._run.name) or await self._api.find(Pod, labels=self._run.selector):
            if loop.time() > until:
                return False
            await asyncio.sleep(self._api.timing.backoff_s)
        return True

    async def _claimed(self, before: Callable[[], None]) -> TrainingJob:
        while True:
            found: TrainingJob | None = await self._api.get(self._kind, self._run.name)
            if found is None:
                before()
                created: TrainingJob | None = await self._api.create(self._manifests.job)
                if created is not None:
                    _LOG.info("event=created kind=%s name=%s", self._kind.__name__, self._run.name)
                    return created
                continue  # somebody was faster, perhaps this step by a request whose answer was lost
            meta = meta_of(found)
            if not meta.deletionTimestamp:
                is_same = (meta.annotations or {}).get(DIGEST_ANNOTATION) == self._manifests.digest
                end = ended_job(found, meta.uid or "", {})
                if is_same and (end is None or end.outcome == "done"):
                    _LOG.info("event=adopted kind=%s name=%s", self._kind.__name__, self._run.name)
                    return found
                why = "it_failed" if is_same else "other_manifests"
                _LOG.warning("event=replaced kind=%s name=%s why=%s", self._kind.__name__, self._run.name, why)
                await self._api.delete(self._kind, self._run.name)
            await self._gone(self._kind, self._run.name)

    async def _anchor(self, job: TrainingJob) -> OwnerReference:
        """Returns the owner of all others: what ends first when nobody looks after the run any more.

        A JobSet removes itself after its time to live. An MPIJob stays, and only its Launcher's Job is removed
        (kubeflow/mpi-operator, pkg/controller/mpi_job_controller.go, newLauncherJob); that one is owned by the MPIJob.
        """
        if not isinstance(job, MPIJob):
            return _reference(job)
        until = asyncio.get_running_loop().time() + self._api.timing.operator_s
        while (launcher := await self._api.get(Job, coordinator_job(self._run))) is None:
            if asyncio.get_running_loop().time() > until:
                raise UserError(
                    f"training: the MPI operator has not seen the job {self._run.name} for "
                    f"{self._api.timing.operator_s:.0f} s (got no Job {coordinator_job(self._run)}); "
                    "see that it runs and looks after this namespace"
                )
            await asyncio.sleep(self._api.timing.backoff_s)
        return _reference(launcher)

    async def _ensure(self, manifest: Dependent, owner: OwnerReference) -> None:
        """Creates an object of the job; one that is there and belongs to it is left as it is."""
        owned = replace(manifest, metadata=replace(meta_of(manifest), ownerReferences=[owner]))
        name = meta_of(manifest).name or ""
        while await self._api.create(owned) is None:
            there = await self._api.get(type(manifest), name)
            if there is None:
                continue
            if owner.uid in [each.uid for each in meta_of(there).ownerReferences or []]:
                return
            # Of a job before: the cluster is about to remove it.
            await self._gone(type(manifest), name)

    async def _gone(self, kind: type[NamespacedResourceG], name: str) -> None:
        until = asyncio.get_running_loop().time() + self._api.timing.operator_s
        uid: str | None = None
        while (there := await self._api.get(kind, name)) is not None and uid in (None, meta_of(there).uid):
            uid = meta_of(there).uid
            if asyncio.get_running_loop().time() > until:
                raise UserError(
                    f"training: the {kind._api_info.resource.kind} {name} of an earlier run is not removed "
                    f"(got it after {self._api.timing.operator_s:.0f} s); delete it by hand"
                )
            await asyncio.sleep(self._api.timing.backoff_s)

    async def _resume(self) -> None:
        policy = {"suspend": False}
        spec = {"runPolicy": policy} if self._kind is MPIJob else policy
        await self._api.merge(self._kind, self._run.name, {"spec": spec})


def _reference(owner: NamespacedResourceG) -> OwnerReference:
    definition = owner._api_info.resource
    meta = meta_of(owner)
    return OwnerReference(
        apiVersion=definition.api_version, kind=definition.kind, name=meta.name or "", uid=meta.uid or ""
    )


def meta_of(manifest: NamespacedResourceG) -> ObjectMeta:
    """Returns an object's metadata, which all that the server knows have."""
    meta = manifest.metadata  # type: ignore[attr-defined]
    assert isinstance(meta, ObjectMeta)
    return meta

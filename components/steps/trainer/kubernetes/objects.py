"""Creates, adopts and removes the objects of a run.

The job owns all other objects, so that they are removed with it: by the step, or without a step after its deadline and
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

from sangam.components.steps.trainer.kubernetes.api import Api
from sangam.components.steps.trainer.kubernetes.envelope import TrainingJob
from sangam.components.steps.trainer.kubernetes.manifests import Dependent, Manifests
from sangam.components.steps.trainer.kubernetes.run import DIGEST_ANNOTATION, QUEUE_LABEL, TrainingRun
from sangam.components.steps.trainer.kubernetes.verdict import ended_job
from sangam.schemas.errors import UserError

_LOG = logging.getLogger(__name__)


class Objects:
    """The objects of one run."""

    def __init__(self, api: Api, run: TrainingRun, manifests: Manifests):
        self._api, self._run, self._manifests = api, run, manifests
        self._kind = type(manifests.job)

    async def start(self, *, before: Callable[[], None]) -> TrainingJob:
        """Creates all objects, starts the job, and returns it.

        A job of the same name and manifests is from an earlier try of this step: it is adopted, unless it has failed.
        One with other manifests is from another step over the same folders: it is replaced.

        Args:
            before: called before a new job is created, when nothing of an earlier one is left.

        Raises:
            UserError: if the cluster refuses an object.
        """
        job = await self._create_or_adopt(before)
        if ended_job(job, meta_of(job).uid or "", {}) is None:
            anchor = await self._owner(job)
            for prerequisite in self._manifests.prerequisites:
                await self._ensure(prerequisite, anchor)
            await self._resume()
            if self._run.launch.queue:
                await self._admitted(self._run.launch.queue)
            for stateful_set in self._manifests.stateful_sets:
                await self._ensure(stateful_set, anchor)
        return job

    async def remove(self) -> bool:
        """Deletes the job, and returns whether nothing of it is left within `removal_s`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._api.timing.removal_s
        await self._api.delete(self._kind, self._run.name)
        while await self._api.get(self._kind, self._run.name) or await self._api.find(Pod, labels=self._run.selector):
            if loop.time() > until:
                return False
            await asyncio.sleep(self._api.timing.backoff_s)
        return True

    async def _create_or_adopt(self, before: Callable[[], None]) -> TrainingJob:
        while True:
            existing: TrainingJob | None = await self._api.get(self._kind, self._run.name)
            if existing is None:
                before()
                created: TrainingJob | None = await self._api.create(self._manifests.job)
                if created is not None:
                    _LOG.info("event=created kind=%s name=%s", self._kind.__name__, self._run.name)
                    return created
                continue  # Created meanwhile, perhaps by an earlier request of this step whose response was lost.
            meta = meta_of(existing)
            if not meta.deletionTimestamp:
                is_same = (meta.annotations or {}).get(DIGEST_ANNOTATION) == self._manifests.digest
                end = ended_job(existing, meta.uid or "", {})
                if is_same and (end is None or end.outcome == "done"):
                    _LOG.info("event=adopted kind=%s name=%s", self._kind.__name__, self._run.name)
                    return existing
                why = "it_failed" if is_same else "other_manifests"
                _LOG.warning("event=replaced kind=%s name=%s why=%s", self._kind.__name__, self._run.name, why)
                await self._api.delete(self._kind, self._run.name)
            await self._wait_until_gone(self._kind, self._run.name)

    async def _owner(self, job: TrainingJob) -> OwnerReference:
        """Returns the owner of all other objects: the one that the cluster removes after its time to live."""
        if job.is_removed:
            return _reference(job)
        name = self._kind.coordinator_job(self._run)
        until = asyncio.get_running_loop().time() + self._api.timing.operator_s
        while (launcher := await self._api.get(Job, name)) is None:
            if asyncio.get_running_loop().time() > until:
                raise UserError(
                    f"training: the operator of {self._kind.__name__}s has not started the job {self._run.name} for "
                    f"{self._api.timing.operator_s:.0f} s (got no Job {name}); "
                    "make sure that it runs and watches this namespace"
                )
            await asyncio.sleep(self._api.timing.backoff_s)
        return _reference(launcher)

    async def _ensure(self, manifest: Dependent, owner: OwnerReference) -> None:
        """Creates an object of the job, unless the job has it already."""
        owned = replace(manifest, metadata=replace(meta_of(manifest), ownerReferences=[owner]))
        name = meta_of(manifest).name or ""
        while await self._api.create(owned) is None:
            existing = await self._api.get(type(manifest), name)
            if existing is None:
                continue
            if owner.uid in [each.uid for each in meta_of(existing).ownerReferences or []]:
                return
            # It belongs to an earlier job: the cluster is about to remove it.
            await self._wait_until_gone(type(manifest), name)

    async def _wait_until_gone(self, kind: type[NamespacedResourceG], name: str) -> None:
        until = asyncio.get_running_loop().time() + self._api.timing.operator_s
        uid: str | None = None
        while (existing := await self._api.get(kind, name)) is not None and uid in (None, meta_of(existing).uid):
            uid = meta_of(existing).uid
            if asyncio.get_running_loop().time() > until:
                raise UserError(
                    f"training: the {kind._api_info.resource.kind} {name} of an earlier run is not removed "
                    f"(got it after {self._api.timing.operator_s:.0f} s); delete it by hand"
                )
            await asyncio.sleep(self._api.timing.backoff_s)

    async def _resume(self) -> None:
        """Starts the job, or hands it to Kueue, which starts it.

        A queued job gets Kueue's label only now: it could be started before its network policy exists. Kueue accepts a
        queue for a job that is suspended, and the same queue for one that it has started.
        """
        queue = self._run.launch.queue
        change = {"metadata": {"labels": {QUEUE_LABEL: queue}}} if queue else {"spec": self._kind.resumed}
        await self._api.merge(self._kind, self._run.name, change)

    async def _admitted(self, queue: str) -> None:
        """Waits until Kueue has started the job: its StatefulSets, which are in no queue, would hold room meanwhile."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        _LOG.info("event=queued queue=%s name=%s", queue, self._run.name)
        while (job := await self._api.get(self._kind, self._run.name)) is not None and job.is_suspended:
            waited_s = loop.time() - began
            if waited_s > self._run.cluster.deadline_s:
                raise UserError(
                    f"training: Kueue has not started the job {self._run.name} for {waited_s:.0f} s (got cluster.queue "
                    f"{queue}); `kubectl describe workloads` says why, or raise cluster.deadline_s"
                )
            await asyncio.sleep(self._api.timing.backoff_s)


def _reference(owner: NamespacedResourceG) -> OwnerReference:
    definition = owner._api_info.resource
    meta = meta_of(owner)
    return OwnerReference(
        apiVersion=definition.api_version, kind=definition.kind, name=meta.name or "", uid=meta.uid or ""
    )


def meta_of(manifest: NamespacedResourceG) -> ObjectMeta:
    """Returns the metadata of an object, which must not be None."""
    meta = manifest.metadata  # type: ignore[attr-defined]
    assert isinstance(meta, ObjectMeta)
    return meta

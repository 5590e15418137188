"""Runs a training job in pods: creates it, watches it, restarts it, and always removes it."""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from lightkube.core.resource import NamespacedResourceG
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod

from sangam.components.steps.trainer.attempts import TrainingFailed
from sangam.components.steps.trainer.kubernetes.api import Api
from sangam.components.steps.trainer.kubernetes.envelope import TrainingJob
from sangam.components.steps.trainer.kubernetes.logs import CoordinatorLog
from sangam.components.steps.trainer.kubernetes.manifests import render
from sangam.components.steps.trainer.kubernetes.objects import Objects, meta_of
from sangam.components.steps.trainer.kubernetes.run import TrainingRun
from sangam.components.steps.trainer.kubernetes.status_log import StatusLogger
from sangam.components.steps.trainer.kubernetes.trouble import component_of
from sangam.components.steps.trainer.kubernetes.verdict import End, ended_job, failure
from sangam.components.steps.trainer.kubernetes.waiting import stopped, within
from sangam.schemas.contracts.training_job import FAILURE_FILE, LOSSES_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.spec.cluster import MAX_RETRIES

_LOG = logging.getLogger(__name__)
_LAST_LINES_S = 5.0


async def run_job(api: Api, run: TrainingRun, log_dir: Path) -> None:
    """Runs a job to its end, and again if its coordinator was disrupted. Its objects are removed in any case.

    Args:
        api: API of the cluster.
        run: run of the job.
        log_dir: log folder of the job, on a volume of the step's pod too.

    Raises:
        TrainingFailed: with the pod and the reason.
        UserError: if the cluster refuses a request.
    """
    manifests = render(run)
    objects = Objects(api, run, manifests)
    loop = asyncio.get_running_loop()
    until = loop.time() + run.cluster.deadline_s + api.timing.started_s
    try:
        for restart in range(MAX_RETRIES + 1):
            if restart:
                await _removed(objects, run)
            # A job that replaces one of this step continues its count of lost processes.
            stale = (FAILURE_FILE,) if restart else (FAILURE_FILE, LOSSES_FILE)
            job = await objects.start(before=functools.partial(_remove, log_dir, stale))
            end = await _Watcher(api, run, job, log_dir).wait(until)
            if end.outcome == "done":
                return
            if end.outcome == "failed" or restart == MAX_RETRIES:
                raise TrainingFailed(_failure_text(end, log_dir))
            _LOG.warning("event=job_restarted after=%r", end.reason)
    finally:
        await _removed(objects, run)


def _remove(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


async def _removed(objects: Objects, run: TrainingRun) -> None:
    try:
        is_gone = await objects.remove()
    except UserError as error:
        # The first error is more important, and the job ends at its deadline.
        _LOG.error("event=not_removed run=%s error=%s", run.name, error)
    else:
        _LOG.log(logging.INFO if is_gone else logging.WARNING, "event=removed run=%s gone=%s", run.name, is_gone)


def _failure_text(end: End, log_dir: Path) -> str:
    file = log_dir / FAILURE_FILE
    launcher_text = [file.read_text().rstrip()] if file.exists() else []
    return "\n".join([*launcher_text, end.reason, f"All logs: {log_dir}"])


class _Watcher:
    """Watches the job and its pods until the job ends."""

    def __init__(self, api: Api, run: TrainingRun, job: TrainingJob, log_dir: Path):
        self._api, self._run, self._kind = api, run, type(job)
        self._uid = meta_of(job).uid or ""
        self._created = _created(job)
        self._job: TrainingJob | None = job
        self._pods: Mapping[str, Pod] = {}
        self._seen: dict[str, Pod] = {}
        self._changed = asyncio.Event()
        self._log = CoordinatorLog(api)
        self._status_logger = StatusLogger(api, run, log_dir)

    async def wait(self, until: float) -> End:
        """Returns how the job ended.

        Raises:
            TrainingFailed: if it has not ended by `until`, of the loop's clock.
        """
        followers = [
            asyncio.create_task(self._follow(self._kind, self._set_job)),
            asyncio.create_task(self._follow(Pod, self._set_pods)),
        ]
        grace_s = 0.0
        try:
            end = await self._ended(followers, until)
            # Pending events of a watch are older than the responses from here on.
            await stopped(followers)
            end = await self._with_cause(end)
            grace_s = _LAST_LINES_S
            return end
        finally:
            await stopped(followers)
            await self._log.close(grace_s)

    async def _ended(self, followers: list["asyncio.Task[None]"], until: float) -> End:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            self._log.update(self._pods)
            end = ended_job(self._job, self._uid, self._seen)
            if end is not None:
                return end
            if loop.time() > until:
                deadline_s = self._run.cluster.deadline_s
                raise TrainingFailed(
                    f"training: not done after {deadline_s} s; raise cluster.deadline_s, or train on less"
                )
            await self._delete_failed_hosts()
            await self._status_logger.log(self._pods)
            for task in followers:
                if task.done():
                    task.result()
            try:
                await within(self._changed.wait(), self._api.timing.tick_s)
            except TimeoutError:
                continue

    async def _with_cause(self, end: End) -> End:
        # The job's end may have been seen before that of its pods.
        pods = await self._api.find(Pod, labels=self._run.selector)
        self._set_pods({meta_of(pod).name or "": pod for pod in pods})
        self._log.update(self._pods)
        if end.outcome == "done" or end.reason.startswith("training: "):
            return end
        job = await self._api.get(Job, self._kind.coordinator_job(self._run))
        return failure(self._run, end, job, self._seen)

    async def _delete_failed_hosts(self) -> None:
        """Deletes pods of hosts that have failed, if the operator does not replace them before."""
        if self._kind.replaces_failed_hosts:
            return
        for name, pod in self._pods.items():
            has_failed = pod.status is not None and pod.status.phase == "Failed"
            is_leaving = pod.metadata is not None and pod.metadata.deletionTimestamp is not None
            if has_failed and component_of(pod) == "host" and not is_leaving:
                _LOG.warning("event=host_replaced pod=%s reason=%s", name, pod.status and pod.status.reason)
                await self._api.delete(Pod, name)

    async def _follow(self, kind: type[NamespacedResourceG], handle: Callable[[Mapping[str, Any]], None]) -> None:
        async for objects in self._api.follow(kind, self._run.selector):
            handle(objects)
            self._changed.set()

    def _set_job(self, jobs: Mapping[str, TrainingJob]) -> None:
        self._job = jobs.get(self._run.name)

    def _set_pods(self, pods: Mapping[str, Pod]) -> None:
        # Older pods belong to a job of the same name that is still being removed.
        self._pods = {name: pod for name, pod in pods.items() if _created(pod) >= self._created}
        self._seen.update(self._pods)


def _created(manifest: NamespacedResourceG) -> datetime:
    created = meta_of(manifest).creationTimestamp
    assert created is not None
    return created

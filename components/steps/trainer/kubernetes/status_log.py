"""Logs the status of a running training job: its pods, its progress, and why pods wait."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from lightkube.resources.core_v1 import Event, Pod

from sangam.components.steps.trainer.kubernetes.api import Api
from sangam.components.steps.trainer.kubernetes.run import TrainingRun
from sangam.components.steps.trainer.kubernetes.trouble import component_of, waiting
from sangam.schemas.contracts.training_job import PROGRESS_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import read_end

_LOG = logging.getLogger(__name__)
_REPEAT_S = 600.0
_PROGRESS_S = 60.0
_TAIL_BYTES = 4096


class StatusLogger:
    """Logs each part of the status when it changes."""

    def __init__(self, api: Api, run: TrainingRun, log_dir: Path):
        self._api, self._run, self._progress_file = api, run, log_dir / PROGRESS_FILE
        self._phases = self._progress = ""
        self._progress_logged_s = 0.0
        self._first_seen_s: dict[str, float] = {}
        self._logged: dict[str, tuple[str, float]] = {}

    async def log(self, pods: Mapping[str, Pod]) -> None:
        """Logs changes."""
        now = asyncio.get_running_loop().time()
        phases = _phases(pods)
        if phases != self._phases:
            self._phases = phases
            _LOG.info("event=pods run=%s %s", self._run.name, phases)
        progress = _last_line(self._progress_file) if now - self._progress_logged_s >= _PROGRESS_S else ""
        if progress not in ("", self._progress):
            self._progress, self._progress_logged_s = progress, now
            _LOG.info("event=progress run=%s %s", self._run.name, progress)
        await self._log_waiting_pods(pods, now)

    async def _log_waiting_pods(self, pods: Mapping[str, Pod], now: float) -> None:
        for component, number in self._run.pods.items():
            present = sum(component_of(pod) == component for pod in pods.values())
            if present >= number:
                self._first_seen_s.pop(component, None)
                continue
            since = self._first_seen_s.setdefault(component, now)
            if now - since >= self._api.timing.pending_s:
                why = await self._refusals() or "no condition gives a reason; check that the operator runs"
                if self._is_new(component, why, now):
                    text = "training: for %.0f s now, %d of %d pods are missing (%s): %s"
                    _LOG.warning(text, now - since, number - present, number, component, why)
        for name, pod in pods.items():
            # The phase of a pod in a restart loop is "Running" too.
            if not waiting(pod):
                self._first_seen_s.pop(name, None)
                continue
            since = self._first_seen_s.setdefault(name, now)
            if now - since >= self._api.timing.pending_s:
                text = waiting(pod, await self._events(**{"involvedObject.name": name}))
                if self._is_new(name, text, now):
                    _LOG.warning("training: for %.0f s now, %s", now - since, text)

    async def _refusals(self) -> str:
        """Returns the newest reason for which a pod of the job could not be created, such as a quota."""
        events = await self._events(reason="FailedCreate")
        own = [each for each in events if (each.involvedObject.name or "").startswith(self._run.name)]
        return str(own[-1].message) if own else ""

    async def _events(self, **fields: str) -> list[Event]:
        try:
            return await self._api.find(Event, fields=fields)
        except UserError as error:
            # Events only add detail, and the step may lack the permission.
            _LOG.debug("event=no_events of=%s error=%s", fields, error)
            return []

    def _is_new(self, name: str, text: str, now: float) -> bool:
        logged, when = self._logged.get(name, ("", 0.0))
        if text == logged and now - when < _REPEAT_S:
            return False
        self._logged[name] = (text, now)
        return True


def _phases(pods: Mapping[str, Pod]) -> str:
    """Returns `coordinator=1_Running host=1_Pending,1_Running`."""
    counts: dict[str, Counter[str]] = {}
    for pod in pods.values():
        phase = (pod.status and pod.status.phase) or "Pending"
        counts.setdefault(component_of(pod), Counter())[phase] += 1
    return " ".join(
        f"{component}={','.join(f'{number}_{phase}' for phase, number in sorted(phases.items()))}"
        for component, phases in sorted(counts.items())
    )


def _last_line(path: Path) -> str:
    """Returns the last complete line of a file; empty if there is none."""
    lines = read_end(path, _TAIL_BYTES).splitlines(keepends=True)
    return next((line.strip() for line in reversed(lines) if line.endswith("\n")), "")

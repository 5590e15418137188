"""What the step's log says of a training job while it runs: its pods, its progress, and who waits for what."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from lightkube.resources.core_v1 import Event, Pod

from components.steps.trainer.kubernetes.api import Api
from components.steps.trainer.kubernetes.run import TrainingRun
from components.steps.trainer.kubernetes.trouble import component_of, waiting
from schemas.contracts.training_job import PROGRESS_FILE
from schemas.errors import UserError
from schemas.files import read_end

_LOG = logging.getLogger(__name__)
_AGAIN_S = 600.0
_PROGRESS_S = 60.0
_TAIL_BYTES = 4096


class Teller:
    """Says each thing when it changes."""

    def __init__(self, api: Api, run: TrainingRun, log_dir: Path):
        self._api, self._run, self._progress_file = api, run, log_dir / PROGRESS_FILE
        self._phases = self._progress = ""
        self._progress_told_s = 0.0
        self._first_seen_s: dict[str, float] = {}
        self._told: dict[str, tuple[str, float]] = {}

    async def tell(self, pods: Mapping[str, Pod]) -> None:
        """Tells what is new."""
        now = asyncio.get_running_loop().time()
        phases = _phases(pods)
        if phases != self._phases:
            self._phases = phases
            _LOG.info("event=pods run=%s %s", self._run.name, phases)
        progress = _last_line(self._progress_file) if now - self._progress_told_s >= _PROGRESS_S else ""
        if progress not in ("", self._progress):
            self._progress, self._progress_told_s = progress, now
            _LOG.info("event=progress run=%s %s", self._run.name, progress)
        await self._tell_who_waits(pods, now)

    async def _tell_who_waits(self, pods: Mapping[str, Pod], now: float) -> None:
        if not pods:
            since = self._first_seen_s.setdefault("", now)
            if now - since > self._api.timing.pending_s and self._is_new("", "no pods", now):
                _LOG.warning("training: its job has no pods yet; is the operator running, and not waiting for a quota?")
        for name, pod in pods.items():
            # Restarted again and again, a pod is "Running" as well.
            if not waiting(pod):
                self._first_seen_s.pop(name, None)
                continue
            since = self._first_seen_s.setdefault(name, now)
            if now - since >= self._api.timing.pending_s:
                text = waiting(pod, await self._events(name))
                if self._is_new(name, text, now):
                    _LOG.warning("training: for %.0f s now, %s", now - since, text)

    async def _events(self, pod: str) -> list[Event]:
        try:
            return await self._api.find(Event, fields={"involvedObject.name": pod})
        except UserError as error:
            # They only explain; and a namespace may keep them from the step.
            _LOG.debug("event=no_events pod=%s error=%s", pod, error)
            return []

    def _is_new(self, name: str, text: str, now: float) -> bool:
        told, when = self._told.get(name, ("", 0.0))
        if text == told and now - when < _AGAIN_S:
            return False
        self._told[name] = (text, now)
        return True


def _phases(pods: Mapping[str, Pod]) -> str:
    """Returns `coordinator=1_Running host=1_Pending,1_Running`."""
    counted: dict[str, Counter[str]] = {}
    for pod in pods.values():
        phase = (pod.status and pod.status.phase) or "Pending"
        counted.setdefault(component_of(pod), Counter())[phase] += 1
    return " ".join(
        f"{component}={','.join(f'{number}_{phase}' for phase, number in sorted(phases.items()))}"
        for component, phases in sorted(counted.items())
    )


def _last_line(path: Path) -> str:
    """Returns the last whole line of a file, empty without one."""
    lines = read_end(path, _TAIL_BYTES).splitlines(keepends=True)
    return next((line.strip() for line in reversed(lines) if line.endswith("\n")), "")

"""Online training from its start to SIGTERM: keeps its programs running, pushes full versions, switches bases."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sangam.components.alerts.event import Event, live_of
from sangam.components.alerts.sending import send
from sangam.components.alerts.target import target_of
from sangam.components.processes.stopping import StopSignals
from sangam.pipelines.online.base import OnlineBase, bases
from sangam.pipelines.online.cleaning import remove_old_lineages, remove_old_segments
from sangam.pipelines.online.full_versions import FullVersions, written_state
from sangam.pipelines.online.job import job_of, lacks_rows
from sangam.pipelines.online.joining import joiner_of
from sangam.pipelines.online.offsets import Offsets
from sangam.pipelines.online.processes import Kept
from sangam.pipelines.online.request import OnlineRequest
from sangam.pipelines.online.shadow import ShadowTraining
from sangam.pipelines.online.training import Training
from sangam.pipelines.times import utc_now
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.joining_job import Kafka, read_stalled
from sangam.schemas.contracts.root import Root
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_POLL_S = 0.5
_BASE_EVERY_S, _SHADOW_EVERY_S = 10.0, 1.0
"""Seconds between two readings of the blessed models; after another version is in the shadow, or none."""
_STATE_EVERY_S = 10.0
_CLEAN_EVERY_S = 300.0
_COMMIT_EVERY_S = 2.0
STOP_S = 120.0
"""Time for the trainer to publish its last delta and write a checkpoint, and for the joiner's last segment."""
GRACE_S = STOP_S + 30.0
"""Time from a signal until all remaining processes are killed."""

Say = Callable[[str], None]


class Supervisor:
    """Online training of one request."""

    def __init__(self, request: OnlineRequest, say: Say, environ: dict[str, str], renew: Callable[[], None]):
        """Stores the request, the printer of lines, the environment with the address of alerts, and the lock's renewal.

        The lock file's modification time is the supervisor's last heartbeat; infra/kubernetes/online reads it.
        """
        self._request, self._say, self._environ = request, say, environ
        self._base = request.base
        self._offsets = Offsets(request.source) if isinstance(request.source, Kafka) else None
        self._is_held = self._is_stalled = False
        self._renew = renew

    def run(self) -> int:
        """Trains until a signal; returns the exit code.

        Raises:
            UserError: alerts have no address, or a program failed with an error that a restart cannot fix.
        """
        if self._request.spec.alerts is not None:
            target_of(self._request.spec.alerts, self._environ)
        with StopSignals(grace_s=GRACE_S) as stop:
            kind = self._request.spec.cluster.launcher.kind
            if kind != "local":
                self._say(f"all ranks run on this machine: cluster.launcher of kind {kind} is for the daily run")
            joiner = joiner_of(self._request)
            joiner.start()
            try:
                while stop.request is None:
                    self._train(lambda: stop.request is not None, joiner)
            finally:
                joiner.end()
            self._say(f"stopped: {stop.request}")
            return stop.request.exit_code if stop.request else ExitCode.DONE

    def _train(self, is_stopped: Callable[[], bool], joiner: Kept) -> None:
        """Trains one base until a signal, or until another model is blessed."""
        self._is_held = False  # Holds of the previous base do not apply.
        job = job_of(self._request, self._base)
        versions = FullVersions(job)
        self._say(f"training version {self._base.lineage} on, from segment {job.stream.first if job.stream else 1}")
        if lacks_rows(job):
            self._say(
                "rows after the base's data may be missing (got no segment of its days any more); raise "
                "online.keep_days, so that it covers the time from a day's end to the push of its run"
            )
        trainer, shadow = Training(job, "the trainer"), ShadowTraining(self._request, self._base, self._say)
        following: OnlineBase | None = None
        looked = -_BASE_EVERY_S
        state_due = clean_due = commit_due = time.monotonic()
        try:
            while not is_stopped() and following is None:
                for told in (joiner.check(), trainer.check(), shadow.check(), versions.check()):
                    if told:
                        self._say(told)
                now = time.monotonic()
                every_s = _SHADOW_EVERY_S if shadow.has_changed() else _BASE_EVERY_S
                if self._request.follows and now >= looked + every_s:
                    looked, following = now, self._follow(shadow)
                if now >= state_due:
                    state_due = now + _STATE_EVERY_S
                    self._renew()
                    self._tell_state(job)
                    self._tell_shadow(shadow)
                if self._offsets and now >= commit_due:
                    commit_due = now + _COMMIT_EVERY_S
                    self._offsets.check(job)
                if now >= clean_due:
                    clean_due = now + _CLEAN_EVERY_S
                    remove_old_segments([each for each in (job, shadow.job) if each is not None], utc_now())
                    remove_old_lineages(Path(job.log_dir).parent.parent, self._base.version.parent, self._base.lineage)
                time.sleep(_POLL_S)
            if following is not None:
                self._say(f"version {following.lineage} is live: training continues from it, after its own data")
                self._base = following
            _stop(trainer, shadow)
        finally:
            trainer.end()
            shadow.end()
            versions.end()
            if self._offsets:
                self._offsets.finish(job)
            self._tell_state(job)

    def _follow(self, shadow: ShadowTraining) -> OnlineBase | None:
        """Returns the newest live model if it is not the current base, or else trains the one that waits.

        One that was promoted is stopped with the current base: its training resumes as the live one's.
        """
        try:
            found = bases(self._request.root, self._request.spec.name)
        except UserError as error:
            self._say(f"cannot look for a new base; training continues: {error}")
            return None
        if found.live is not None and found.live.lineage != self._base.lineage:
            return found.live
        shadow.follow(found.waiting)
        return None

    def _tell_stall(self, job: TrainJob) -> None:
        assert job.stream is not None
        stalled = read_stalled(Path(job.stream.joining), time.time()).reason
        if stalled and not self._is_stalled:
            text = f"online: rows arrive, but no example is written (got {stalled})"
            self._alert(text, f"{job.stream.lineage}: joining at {utc_now():%Y-%m-%d %H:%M:%S}")
        if self._is_stalled and not stalled:
            self._say("examples are written again")
        self._is_stalled = bool(stalled)

    def _tell_state(self, job: TrainJob) -> None:
        self._tell_stall(job)
        state = written_state(job)
        if not state:
            return
        held = str(state.get("held") or "")
        self._say(_progress(state))
        if held and not self._is_held:  # Print it once: its value changes with every segment.
            last = f"{state['lineage']}+{state['delta']}"
            back = f"sangam rollback {self._base.version.parent} --to {self._base.lineage}+NUMBER --because REASON"
            self._alert(
                f"online: no delta after {last} goes out (got {held}); training goes on. To go back to an earlier "
                f"state: {back}",
                last,
                back,
            )
        if self._is_held and not held:
            self._say("deltas go out again")
        self._is_held = bool(held)

    def _tell_shadow(self, shadow: ShadowTraining) -> None:
        if shadow.job is not None and (state := written_state(shadow.job)):
            self._say(f"version {shadow.lineage}, in the shadow: {_progress(state)}")

    def _alert(self, text: str, last: str, command: str = "") -> None:
        self._say(text)
        if self._request.spec.alerts is not None:
            event = Event(
                kind="refused",
                pipeline=self._request.spec.name,
                step="online",
                date=None,
                run=last,
                reason=text,
                root=str(self._request.root),
                command=command,
                **live_of(Root(str(self._request.root)), self._request.spec.name),
            )
            send(self._request.spec.alerts, event, self._environ)


def _progress(state: Mapping[str, object]) -> str:
    return (
        f"segment {state['segment']} of {state['newest_segment']}, {state['examples']:,} examples, "
        f"{state['lag_s']} s behind, delta {state['delta']}" + (" (held)" if state.get("held") else "")
    )


def _stop(*trainings: Training | ShadowTraining) -> None:
    """Has trainings publish their last changes and write checkpoints, all at once."""
    for training in trainings:
        training.ask_to_stop()
    given_up = time.monotonic() + STOP_S
    for training in trainings:
        training.wait_for_end(max(0.0, given_up - time.monotonic()))

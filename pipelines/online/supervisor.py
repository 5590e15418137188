"""Online training from its start to SIGTERM: keeps its programs running, pushes full versions, switches bases."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from sangam.components.alerts.event import Event, live_of
from sangam.components.alerts.sending import send
from sangam.components.alerts.target import target_of
from sangam.components.processes.stopping import StopSignals
from sangam.pipelines.online.base import OnlineBase, newest
from sangam.pipelines.online.cleaning import remove_old_lineages, remove_old_segments
from sangam.pipelines.online.full_versions import FullVersions, written_state
from sangam.pipelines.online.job import job_of, lacks_rows
from sangam.pipelines.online.joining import joiner_of
from sangam.pipelines.online.offsets import Offsets
from sangam.pipelines.online.processes import Kept
from sangam.pipelines.online.request import OnlineRequest
from sangam.pipelines.times import utc_now
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.joining_job import Kafka, read_stalled
from sangam.schemas.contracts.root import Root
from sangam.schemas.contracts.training_job import JOB_FILE, TrainJob, write_job
from sangam.schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_LAUNCHER = "sangam.trainer_module.launch.launcher"
_POLL_S = 0.5
_BASE_EVERY_S = 10.0
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
        trainer = _trainer_of(job)
        versions = FullVersions(job)
        self._say(f"training version {self._base.lineage} on, from segment {job.stream.first if job.stream else 1}")
        if lacks_rows(job):
            self._say(
                "rows after the base's data may be missing (got no segment of its days any more); raise "
                "online.keep_days, so that it covers the time from a day's end to the push of its run"
            )
        trainer.start()
        base_due = state_due = clean_due = commit_due = time.monotonic()
        following: OnlineBase | None = None
        try:
            while not is_stopped() and following is None:
                for told in (joiner.check(), trainer.check(), versions.check()):
                    if told:
                        self._say(told)
                now = time.monotonic()
                if now >= base_due and self._request.follows:
                    base_due, following = now + _BASE_EVERY_S, self._following()
                if now >= state_due:
                    state_due = now + _STATE_EVERY_S
                    self._renew()
                    self._tell_state(job)
                if self._offsets and now >= commit_due:
                    commit_due = now + _COMMIT_EVERY_S
                    self._offsets.check(job)
                if now >= clean_due:
                    clean_due = now + _CLEAN_EVERY_S
                    remove_old_segments(job, utc_now())
                    remove_old_lineages(Path(job.log_dir).parent.parent, self._base.version.parent, self._base.lineage)
                time.sleep(_POLL_S)
            if following is not None:
                self._say(f"version {following.lineage} was blessed: training continues from it, after its own data")
                self._base = following
            job.stop_file.touch()
            trainer.wait_for_end(STOP_S)
        finally:
            trainer.end()
            versions.end()
            if self._offsets:
                self._offsets.finish(job)
            self._tell_state(job)

    def _following(self) -> OnlineBase | None:
        """Returns the newest blessed model, if it is not the current base."""
        try:
            found = newest(self._request.root, self._request.spec.name)
        except UserError as error:
            self._say(f"cannot look for a new base; training continues: {error}")
            return None
        return found if found is not None and found.lineage != self._base.lineage else None

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
        self._say(
            f"segment {state['segment']} of {state['newest_segment']}, {state['examples']:,} examples, "
            f"{state['lag_s']} s behind, delta {state['delta']}" + (" (held)" if held else "")
        )
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


def _trainer_of(job: TrainJob) -> Kept:
    """Writes the trainer's job file, and returns its launcher, not started."""
    folder = Path(job.log_dir)
    folder.mkdir(parents=True, exist_ok=True)
    job.stop_file.unlink(missing_ok=True)
    write_job(folder / JOB_FILE, job)

    def reason() -> str:
        return job.failure_file.read_text() if job.failure_file.exists() else ""

    return Kept("the trainer", [_LAUNCHER, str(folder / JOB_FILE)], folder / "launch.log", reason=reason)

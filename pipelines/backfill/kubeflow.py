"""A backfill on Kubeflow: one run per date, in order, each starts after the previous one has ended."""

import datetime
from dataclasses import dataclass, replace

from sangam.components.processes.stopping import Stopped, StopSignals
from sangam.pipelines.deploy import names
from sangam.pipelines.deploy.api import Api, Launch
from sangam.pipelines.deploy.errors import Transient, short
from sangam.pipelines.deploy.reasons import log_command, pods_command, reason_of
from sangam.pipelines.deploy.records import DATE_PARAMETER, KubeflowRun
from sangam.pipelines.deploy.release import Release, Say, publish
from sangam.pipelines.deploy.steps import LONG_WAIT
from sangam.pipelines.times import Clock, Moment, duration, minute
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.derived.days import Day
from sangam.schemas.errors import UserError

POLL_S = 20.0
PATIENCE = datetime.timedelta(hours=1)
"""Longest outage of the API server during a wait for a run. The run itself does not need the server."""
OTHERS_LIMIT = datetime.timedelta(hours=24)
"""Longest wait for other runs of the ranker: the next daily run is due by then."""


@dataclass(frozen=True)
class Choices:
    """The user's choices for a backfill.

    Attributes:
        retry_failed: whether to run dates again whose run failed.
        ignored_runs: ids of other runs not to wait for.
    """

    retry_failed: bool = False
    ignored_runs: frozenset[str] = frozenset()


class DateFailed(Exception):
    """A date whose run failed; the text has the reason, and how to resume."""


class Backfill:
    """Runs dates in order. The names of the runs on the server are the only record of finished dates."""

    def __init__(self, api: Api, release: Release, launch: Launch, clock: Clock, say: Say, choices: Choices):
        """Stores the release to run, the settings of its runs (`launch`), and the server (`api`)."""
        self._api, self._release, self._launch = api, release, launch
        self._clock, self._say, self._choices = clock, say, choices
        self._current: KubeflowRun | None = None

    def run(self, dates: tuple[Day, ...]) -> int:
        """Runs every date that has not succeeded, prints a line for each, and returns the exit code."""
        with StopSignals() as stop:
            try:
                with stop.raised():
                    self._check_ignored()
                    for date in dates:
                        self._run(date)
            except DateFailed as failure:
                self._say(str(failure))
                return ExitCode.FAILED
            except Stopped as stopped:
                rest = f"run {self._current.id} continues; " if self._current else ""
                self._say(f"{stopped}; {rest}the same command resumes")
                return stopped.exit_code
        self._say(f"all {len(dates)} dates have succeeded")
        return ExitCode.DONE

    def _check_ignored(self) -> None:
        if not self._choices.ignored_runs:
            return
        unfinished = {run.id for run in self._api.unfinished_runs(self._launch.pipeline_id)}
        for run_id in sorted(self._choices.ignored_runs - unfinished):
            raise UserError(
                f"--ignore-run: is no unfinished run of the ranker (got {run_id}; unfinished: "
                f"{', '.join(sorted(unfinished)) or 'none'}); leave it out"
            )

    def _run(self, date: Day) -> None:
        name = names.backfill_name(self._release.spec.name, date, self._release.meaning())
        known = self._api.runs_named(name, self._launch.experiment_id)
        done = next((run for run in known if run.state == "succeeded"), None)
        if done:
            self._say(f"{date} succeeded  earlier, run {done.id}")
            return
        ended = frozenset(run.id for run in known if not run.is_unfinished)
        run = self._api.settle(name, self._launch.experiment_id, ended)
        if run:
            self._say(f"{date} continues  run {run.id} ({run.state})")
        elif known and not self._choices.retry_failed:
            raise DateFailed(self._failure(date, self._api.get_run(known[-1].id), "earlier: "))
        else:
            self._wait_for_others(date)
            parameters = {**self._launch.parameters, DATE_PARAMETER: date.isoformat()}
            launch = replace(self._launch, parameters=parameters)
            run = self._api.make_run(name, launch, ended)
            self._say(f"{date} started    run {run.id}")
        self._current = run
        done = self._wait(run, ended)
        self._current = None
        if done.state != "succeeded":
            raise DateFailed(self._failure(date, done, ""))
        seconds = done.seconds(self._clock.now())
        self._say(f"{date} succeeded  in {duration(seconds) if seconds is not None else 'an unknown time'}")

    def _wait_for_others(self, date: Day) -> None:
        """Waits until all other runs of the ranker have finished: two runs would train from the same base.

        Raises:
            UserError: one has not ended within the limit. A run whose workflow was deleted never ends, such as one that
                was retried after its schedule had been deleted (kubeflow/pipelines issue 5722).
        """
        reported: set[str] = set()
        since = self._clock.now()
        while others := self._others():
            for other in others:
                if other.id not in reported:
                    self._say(f"{date} waits for  run {other.id} ({other.name}, {other.state})")
                    reported.add(other.id)
            if self._clock.now() - since > OTHERS_LIMIT:
                raise UserError(_never_ends(date, others[0], self._api.namespace))
            self._clock.sleep(POLL_S)

    def _others(self) -> list[KubeflowRun]:
        unfinished = self._api.unfinished_runs(self._launch.pipeline_id)
        return [run for run in unfinished if run.id not in self._choices.ignored_runs]

    def _wait(self, run: KubeflowRun, ended: frozenset[str]) -> KubeflowRun:
        """Returns the run once it has finished, or the run of the same name that the server kept instead of it."""
        unreachable_since: Moment | None = None
        is_told = False
        while True:
            try:
                run = self._api.settle(run.name, self._launch.experiment_id, ended) or run
                seen = self._api.get_run(run.id)
                if not seen.is_unfinished:
                    return seen
                if not is_told and seen.waits_since and self._clock.now() - seen.waits_since >= LONG_WAIT:
                    self._say(
                        f"still waiting, a pod of run {seen.id} has not started since {minute(seen.waits_since)} UTC: "
                        f"{pods_command(seen.id, self._api.namespace)}"
                    )
                    is_told = True
                unreachable_since = None
            except Transient as error:
                if unreachable_since is None:
                    unreachable_since = self._clock.now()
                    self._say(f"still trying, the run continues: {error}")
                elif self._clock.now() - unreachable_since > PATIENCE:
                    raise UserError(
                        f"{error}; run {run.id} may still be running: give the same command again"
                    ) from None
            self._clock.sleep(POLL_S)

    def _failure(self, date: Day, run: KubeflowRun, when: str) -> str:
        step, reason = run.failed_step, short(reason_of(run))
        why = reason or f"`{log_command(run.id, self._api.namespace)}` prints why"
        return (
            f"{date} {when}{run.state:<9} run {run.id}{f', step {step.name}' if step else ''}: {why}; later dates "
            "build on it, so none was started. Fix the cause, then give the same command with --retry-failed"
        )


def _never_ends(date: Day, other: KubeflowRun, namespace: str) -> str:
    return (
        f"--on kfp: {date} waits for a run that does not end (got {other.id}, {other.name}, {other.state}, for "
        f"{OTHERS_LIMIT.total_seconds() / 3600:.0f} h); if `{pods_command(other.id, namespace)}` shows no pod, its "
        f"workflow is gone and it never will: give the same command with --ignore-run {other.id}"
    )


def run_backfill(api: Api, release: Release, dates: tuple[Day, ...], say: Say, choices: Choices) -> int:
    """Publishes a release, runs it for every date that has not succeeded, and returns the exit code."""
    launch = publish(api, release, say)
    return Backfill(api, release, launch, Clock(), say, choices).run(dates)

"""A job on an engine, from its submission to its end. It is cancelled when its step ends."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import grpc
import requests
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.portability.flink_uber_jar_job_server import FlinkUberJarJobServer
from apache_beam.runners.portability.portable_runner import PipelineResult

from sangam.components.beam.reasons import advice, last_cause
from sangam.schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_REQUEST_S = 5.0
"""Timeout of a request that cancels a job: the process may have few seconds left."""
_SUBMISSION_S = 10.0
"""Seconds to wait for the end of a submission before cancelling the job."""
_ENDED = ("DONE", "FAILED", "CANCELLED", "DRAINED", "UPDATED")


class EngineError(UserError):
    """A job that an engine did not finish. A retry may succeed."""

    is_mistake = False


class Job:
    """A job, submitted and watched in a separate thread, so that no engine can block the end of this process."""

    def __init__(self, submit: Callable[[], Any], engine: str) -> None:
        """Takes the function that submits the job and returns Beam's result, and the engine's name for messages."""
        self._submit = submit
        self._engine = engine
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_given_up = False
        self._submitted, self._ended = threading.Event(), threading.Event()

    def run(self, seconds: float, limit_s: int) -> Any:
        """Runs the job to its end; returns Beam's result.

        Args:
            seconds: remaining seconds of the step.
            limit_s: time limit of the step, for the message.

        Raises:
            EngineError: the job failed, or took too long; it has been cancelled.
        """
        threading.Thread(target=self._follow, name="beam-job", daemon=True).start()
        try:
            if not self._ended.wait(max(seconds, 0.0)):
                raise EngineError(
                    f"beam.timeout_s: the step did not end on {self._engine} in time (got {limit_s} s); its job was "
                    "cancelled: look at the engine's free slots and the worker pool's log, or raise timeout_s"
                )
            if self._error is not None:
                raise self._failure(self._error) from self._error
        except BaseException:
            self._give_up()
            raise
        return self._result

    def _follow(self) -> None:
        try:
            self._result = self._submit()
            self._submitted.set()
            if self._is_given_up:
                cancel(self._result)
            else:
                self._result.wait_until_finish()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._error = error
        finally:
            self._submitted.set()
            self._ended.set()

    def _give_up(self) -> None:
        self._is_given_up = True
        # A job without an id cannot be cancelled yet.
        if self._submitted.wait(_SUBMISSION_S) and self._result is not None:
            cancel(self._result)

    def _failure(self, error: BaseException) -> EngineError:
        text = f"{type(error).__name__}: {error}"
        # The runner's error is hidden by that of the thread that waited for it.
        if self._result is None and isinstance(error, requests.ConnectionError | requests.Timeout | grpc.RpcError):
            return EngineError(
                f"beam: {self._engine} does not answer (got {last_cause(text)}); check its address in the spec"
            )
        if self._result is None and isinstance(error, grpc.FutureTimeoutError):
            return EngineError(
                f"beam: {self._engine} does not answer (got nothing for a minute); check its address in the spec"
            )
        what_to_do = advice(text) or "the log of the step has all of it"
        return EngineError(f"beam: the job on {self._engine} failed (got {last_cause(text)}); {what_to_do}")


def cancel(result: Any) -> None:
    """Cancels the job on its engine, by its id, unless it has ended. Raises nothing: it runs during cleanup."""
    try:
        if isinstance(result, PipelineResult):
            service, job = result._job_service, result._job_id
            if isinstance(service, FlinkUberJarJobServer):
                _cancel_flink(service._jobs[job])
                return
            request = beam_job_api_pb2.GetJobStateRequest(job_id=job)
            state = service.GetState(request, timeout=_REQUEST_S).state
            if beam_job_api_pb2.JobState.Enum.Name(state) not in _ENDED:
                service.Cancel(beam_job_api_pb2.CancelJobRequest(job_id=job), timeout=_REQUEST_S)
                _LOG.warning("event=job_cancelled job=%s", job)
        else:
            result.cancel()
    except Exception as error:  # noqa: BLE001 - it must not hide why the step ends
        _LOG.error("event=job_not_cancelled result=%r error=%r action=cancel_it_by_hand", result, error)


def _cancel_flink(job: Any) -> None:
    """Cancels through Flink's REST API: Beam's `cancel` posts to a path that Flink does not have."""
    flink_id = getattr(job, "_flink_job_id", None)
    if flink_id is None:
        return
    url = f"{job._master_url}/v1/jobs/{flink_id}"
    state = requests.get(url, timeout=_REQUEST_S).json().get("state")
    if state in ("FINISHED", "FAILED", "CANCELED"):
        return
    answer = requests.patch(url, params={"mode": "cancel"}, timeout=_REQUEST_S)
    answer.raise_for_status()
    _LOG.warning("event=job_cancelled job=%s", flink_id)
    job.delete_jar()

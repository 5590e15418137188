"""Handles a request of either interface: a slot, a version, a signature, inputs, outputs."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sangam.components.drift.watching import DriftWatch
from sangam.components.server.admission import Admission, Ticket
from sangam.components.server.joining import Joined
from sangam.components.server.metrics import Metrics
from sangam.components.server.model import LoadedModel
from sangam.components.server.request_error import Code, RequestError, invalid
from sangam.components.server.room import Room
from sangam.components.server.served_log import ServerLog, check_told, taken_out
from sangam.components.server.session import Arrays
from sangam.components.server.signature import Signature
from sangam.components.server.versions import Versions
from sangam.schemas.contracts.export import SERVE
from sangam.schemas.host.limited_log import LimitedLog

_LOG = logging.getLogger("sangam.components.server")
_ROOM_OF_LARGEST = 16
"""Memory of all requests together, in requests of the largest size."""
_MIN_ROOM_BYTES = 64 * 2**20
_MAX_AHEAD_BYTES = 2**20
"""Maximum size of a waiting request's inputs that are read ahead."""


@dataclass(frozen=True)
class Target:
    """The model that a request is for.

    Attributes:
        name: name of the model.
        version: number; None: the served version.
        signature: empty: serving_default.
    """

    name: str
    version: int | None = None
    signature: str = ""


@dataclass(frozen=True)
class Answer:
    """A model's outputs.

    Attributes:
        version: version that computed the outputs.
        signature: signature that was called.
        outputs: name to array.
    """

    version: int
    signature: str
    outputs: Mapping[str, Any]


class Observation:
    """Facts about a request, for metrics and the log.

    Attributes:
        signature: set once it is known to exist: names made up by clients would let metrics grow without bound.
        request_id: id for the log; empty where there is none.
    """

    def __init__(self) -> None:
        self.signature = self.request_id = ""


class _Request(Ticket):
    """A request and its result.

    Attributes:
        target: the model.
        read: reads its inputs for a signature.
        observed: receives the signature.
        output_names: names of the outputs to return; empty: all.
        signature: signature that its inputs were read for.
        model: version that they were read for.
        arrays: inputs, once they are read.
        told: inputs for the log alone.
        num_rows: number of rows of the inputs.
        answer: result; None until it is known.
        error: instead of an answer.
    """

    def __init__(
        self, target: Target, read: Callable[[Signature], Arrays], observed: Observation, output_names: Sequence[str]
    ):
        super().__init__(kind=(target.version, target.signature or SERVE))
        self.target, self.read, self.observed, self.output_names = target, read, observed, output_names
        self.signature: Signature | None = None
        self.model: LoadedModel | None = None
        self.arrays: Arrays = {}
        self.told: Arrays = {}
        self.num_rows = 0
        self.answer: Answer | None = None
        self.error: Exception | None = None

    def result(self) -> Answer:
        if self.error is not None:
            # Its traceback has frames that hold this request: together they would stay in memory.
            error, self.error = self.error, None
            raise error
        assert self.answer is not None
        return self.answer


class Predictor:
    """Answers requests, within limits.

    A request runs at once while there is a slot. Those that wait meanwhile are joined into the call of the first of
    them to get one, if they are for the same version and signature.
    """

    def __init__(
        self,
        *,
        name: str,
        versions: Versions,
        admission: Admission,
        metrics: Metrics,
        max_rows: int,
        max_batch_rows: int,
        max_bytes: int,
        allow_updates: bool,
        log: ServerLog | None = None,
        drift: DriftWatch | None = None,
    ):
        """Takes the limits; `max_batch_rows` of one call of joined requests, 0: a separate call for each request."""
        self.name, self.versions, self.metrics, self.log_of_requests = name, versions, metrics, log
        self.max_bytes, self._drift = max_bytes, drift
        self._admission, self._allow_updates = admission, allow_updates
        self._max_rows, self._max_batch_rows = max_rows, max_batch_rows
        self._reading_ahead = threading.Lock()
        self.log, self.room = LimitedLog(_LOG), Room(max(_ROOM_OF_LARGEST * max_bytes, _MIN_ROOM_BYTES))
        metrics.in_flight.set_function(lambda: admission.num_running)
        metrics.waiting.set_function(lambda: admission.num_waiting)

    def predict(
        self,
        target: Target,
        read: Callable[[Signature], Arrays],
        *,
        deadline: float | None,
        observed: Observation,
        output_names: Sequence[str] = (),
    ) -> Answer:
        """Returns a model's answer.

        Args:
            target: the model.
            read: reads the request's inputs for a signature; possibly in another request's thread.
            deadline: latest time.monotonic() of an answer.
            observed: receives the signature.
            output_names: names of the outputs to return; empty: all.

        Raises:
            RequestError: with the reason.
        """
        self.check_name(target.name)
        request = _Request(target, read, observed, output_names)
        if self._max_batch_rows and self._admission.must_wait():
            self._read_ahead(request)
        if self._admission.enter(request, deadline):
            taken: list[_Request] = []
            try:
                self._call(request, taken)
            finally:
                self._admission.leave(request, taken)
        answer = request.result()
        if self._drift is not None and request.model is not None:
            self._drift.offer(
                request.model.compared, answer.signature, request.arrays, request.num_rows, answer.outputs
            )
        if self.log_of_requests is not None and request.model is not None:
            self._log_request(self.log_of_requests, request, request.model, answer)
        return answer

    def refuse_if_full(self) -> None:
        """Refuses a request before its inputs are parsed, if too many wait.

        Raises:
            RequestError: server is busy.
        """
        self._admission.refuse_if_full()

    def check_name(self, name: str) -> None:
        """Refuses requests for other models.

        Raises:
            RequestError: with the name of the served one.
        """
        if not name:
            raise invalid(f"model_spec.name: missing (got ''); this server serves {self.name}")
        if name != self.name:
            raise RequestError(Code.NOT_FOUND, f"model: unknown (got '{name}'); this server serves {self.name}")

    @contextmanager
    def observe(self, api: str, method: str) -> Iterator[Observation]:
        """Counts and times a request, and logs some of those that fail.

        Raises:
            RequestError: for any error within.
        """
        observed, start, code = Observation(), time.perf_counter(), "OK"
        try:
            try:
                yield observed
            except RequestError:
                raise
            except Exception as error:
                self.log.error(f"api={api} method={method} failed", error)
                raise RequestError(Code.INTERNAL, f"server: failed ({type(error).__name__}); see its log") from error
        except RequestError as refused:
            code = refused.code.name
            kind = f"api={api} method={method} signature={observed.signature} code={code}"
            self.log.warning(kind, refused.text)
            raise
        finally:
            self.metrics.observe(api, method, observed.signature, code, time.perf_counter() - start)

    def _log_request(self, log: ServerLog, request: _Request, model: LoadedModel, answer: Answer) -> None:
        deltas = self.versions.deltas()
        log.give(
            request.observed.request_id,
            model.logged,
            answer.signature,
            request.arrays,
            request.told,
            request.num_rows,
            answer.outputs,
            deltas.number_of(model) if deltas else None,
        )

    def _call(self, first: _Request, taken: list[_Request]) -> None:
        """Answers a request, and others that wait for the same call; puts them into `taken`."""
        model = self.versions.ready(first.target.version)
        signature = model.signature(first.target.signature)
        if not self._read(first, model, signature):
            return
        joined, members = self._unjoined(first, signature), [first]
        alone: _Request | None = None
        while signature.is_joinable and alone is None and joined.num_rows < self._max_batch_rows:
            other = self._admission.take(first)
            if other is None:
                break
            assert isinstance(other, _Request)
            taken.append(other)
            if self._read(other, model, signature):
                if joined.add(other.arrays, other.num_rows):
                    members.append(other)
                else:
                    alone = other
        self._run(members, model, signature, joined)
        if alone:
            self._run([alone], model, signature, self._unjoined(alone, signature))

    def _read_ahead(self, request: _Request) -> None:
        """Reads a request that will wait, so that the call that joins it need not.

        One at a time, and large ones are read again: the inputs of a small message may take a lot of memory.
        """
        with self._reading_ahead:
            try:
                model = self.versions.ready(request.target.version)
                signature = model.signature(request.target.signature)
            except RequestError:
                return  # Reported when the request runs: the version may have changed by then.
            if not signature.is_joinable or not self._read(request, model, signature):
                return
            if sum(array.nbytes for array in request.arrays.values()) > _MAX_AHEAD_BYTES:
                request.signature, request.arrays = None, {}

    def _read(self, request: _Request, model: LoadedModel, signature: Signature) -> bool:
        """Reads the inputs of a request, and checks them; returns False if it needs no call, as it has its result."""
        if request.signature is signature:  # Read ahead.
            return request.answer is None and request.error is None
        request.signature, request.model, request.answer, request.error = signature, model, None, None
        try:
            request.observed.signature = signature.name
            self._check_allowed(signature)
            _check_outputs(signature, request.output_names)
            arrays = dict(request.read(signature))
            request.told = taken_out(arrays)
            num_rows = signature.num_rows(arrays)
            check_told(request.told, num_rows)
            if num_rows > self._max_rows:
                raise invalid(
                    f"inputs: too many rows (got {num_rows}); a request may have {self._max_rows} (--max-rows)"
                )
            self.metrics.observe_rows(signature.name, num_rows)
            if num_rows == 0 and (nothing := signature.empty_outputs()) is not None:
                request.answer = _answer(request, model, signature, nothing)
                return False
            request.arrays, request.num_rows = arrays, num_rows
            return True
        except Exception as error:  # noqa: BLE001 Raised again in the request's own thread.
            request.error = error
            return False

    def _unjoined(self, request: _Request, signature: Signature) -> Joined:
        return Joined(signature, request.arrays, request.num_rows, self.max_bytes)

    def _run(self, members: list[_Request], model: LoadedModel, signature: Signature, joined: Joined) -> None:
        self.metrics.joined.observe(len(members))
        try:
            divided = joined.divided(model.run(signature, joined.arrays()))
        except Exception as error:  # noqa: BLE001 Raised again in the request's own thread.
            if len(members) == 1:
                members[0].error = error
                return
            divided = None
        if divided is None:  # Caused by one request or by the model: run each request by itself.
            for request in members:
                self._run([request], model, signature, self._unjoined(request, signature))
            return
        for request, outputs in zip(members, divided, strict=True):
            request.answer = _answer(request, model, signature, outputs)

    def _check_allowed(self, signature: Signature) -> None:
        if signature.is_update and not self._allow_updates:
            raise RequestError(
                Code.PERMISSION_DENIED,
                f"signature_name: changes the model (got '{signature.name}'); start the server with --allow-updates",
            )


def _answer(request: _Request, model: LoadedModel, signature: Signature, outputs: Mapping[str, Any]) -> Answer:
    names = request.output_names
    return Answer(model.version, signature.name, {name: outputs[name] for name in names} if names else outputs)


def _check_outputs(signature: Signature, output_names: Sequence[str]) -> None:
    if unknown := sorted(set(output_names) - signature.outputs.keys()):
        known = ", ".join(sorted(signature.outputs))
        raise invalid(f"output_filter: {', '.join(unknown)} unknown; signature {signature.name} gives {known}")

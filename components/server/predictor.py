"""The way of a request, whichever interface it came by: a place, a version, a signature, tensors, scores."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from components.server.admission import Admission
from components.server.metrics import Metrics
from components.server.request_error import Code, Refused, invalid
from components.server.signature import Signature, Tensors
from components.server.versions import Versions

_LOG = logging.getLogger("components.server")
_DETAIL_CHARACTERS = 300


@dataclass(frozen=True)
class Target:
    """Which model a request is for.

    Attributes:
        name: of the model.
        version: None: the served one.
        signature: empty: serving_default.
    """

    name: str
    version: int | None = None
    signature: str = ""


@dataclass(frozen=True)
class Answer:
    """What a model says.

    Attributes:
        version: that said all of it.
        signature: that was called.
        outputs: name to array.
    """

    version: int
    signature: str
    outputs: Mapping[str, Any]


class Observation:
    """What is known of a request so far, for metrics and the log.

    Attributes:
        signature: once it is known to exist: what a client makes up would make metrics grow without bound.
    """

    def __init__(self) -> None:
        self.signature = ""


class Predictor:
    """Answers requests, within limits."""

    def __init__(
        self,
        *,
        name: str,
        versions: Versions,
        admission: Admission,
        metrics: Metrics,
        max_rows: int,
        max_bytes: int,
        allow_updates: bool,
    ):
        self.name, self.versions, self.metrics = name, versions, metrics
        self.max_bytes = max_bytes
        self._admission, self._max_rows, self._allow_updates = admission, max_rows, allow_updates
        metrics.in_flight.set_function(lambda: admission.num_running)
        metrics.waiting.set_function(lambda: admission.num_waiting)

    def predict(
        self,
        target: Target,
        read: Callable[[Signature], Tensors],
        *,
        deadline: float | None,
        observed: Observation,
        only: Sequence[str] = (),
    ) -> Answer:
        """Returns a model's answer.

        Args:
            target: the model.
            read: makes tensors of what was sent, by the signature.
            deadline: of time.monotonic.
            observed: is told the signature.
            only: outputs wanted; empty: all.

        Raises:
            Refused: with the reason.
        """
        self.check_name(target.name)
        with self._admission.place(deadline):
            model = self.versions.ready(target.version)
            signature = model.signature(target.signature)
            observed.signature = signature.name
            self._check_allowed(signature)
            _check_outputs(signature, only)
            tensors = read(signature)
            num_rows = signature.num_rows(tensors)
            if num_rows > self._max_rows:
                raise invalid(
                    f"inputs: too many rows (got {num_rows}); a request may have {self._max_rows} (--max-rows)"
                )
            self.metrics.candidates.labels(signature.name).observe(num_rows)
            outputs = (signature.nothing() if num_rows == 0 else None) or model.run(signature, tensors)
            wanted = {name: outputs[name] for name in only} if only else outputs
            return Answer(model.version, signature.name, wanted)

    def check_name(self, name: str) -> None:
        """Refuses requests for other models.

        Raises:
            Refused: naming the one that is served.
        """
        if not name:
            raise invalid(f"model_spec.name: missing (got ''); this server serves {self.name}")
        if name != self.name:
            raise Refused(Code.NOT_FOUND, f"model: unknown (got '{name}'); this server serves {self.name}")

    @contextmanager
    def observe(self, api: str, method: str) -> Iterator[Observation]:
        """Counts and times a request; logs it if it fails.

        Raises:
            Refused: whatever went wrong within.
        """
        observed, start, code = Observation(), time.perf_counter(), "OK"
        try:
            try:
                yield observed
            except Refused:
                raise
            except Exception as error:
                _LOG.exception("api=%s method=%s failed", api, method)
                raise Refused(Code.INTERNAL, f"server: failed ({type(error).__name__}); see its log") from error
        except Refused as refused:
            code = refused.code.name
            took = (time.perf_counter() - start) * 1e3
            detail = refused.text[:_DETAIL_CHARACTERS].encode("unicode_escape").decode()
            _LOG.warning(
                "api=%s method=%s signature=%s code=%s ms=%.1f: %s", api, method, observed.signature, code, took, detail
            )
            raise
        finally:
            self.metrics.observe(api, method, observed.signature, code, time.perf_counter() - start)

    def _check_allowed(self, signature: Signature) -> None:
        if signature.is_update and not self._allow_updates:
            raise Refused(
                Code.PERMISSION_DENIED,
                f"signature_name: changes the model (got '{signature.name}'); start the server with --allow-updates",
            )


def _check_outputs(signature: Signature, only: Sequence[str]) -> None:
    if unknown := sorted(set(only) - signature.outputs.keys()):
        known = ", ".join(sorted(signature.outputs))
        raise invalid(f"output_filter: {', '.join(unknown)} unknown; signature {signature.name} gives {known}")

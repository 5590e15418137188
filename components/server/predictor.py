"""Handles a request of either interface: a slot, a version, a signature, tensors, outputs."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from components.server.admission import Admission
from components.server.metrics import Metrics
from components.server.request_error import Code, RequestError, invalid
from components.server.signature import Signature, Tensors
from components.server.versions import Versions

_LOG = logging.getLogger("components.server")
_DETAIL_CHARACTERS = 300


@dataclass(frozen=True)
class Target:
    """The model that a request is for.

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
    """A model's outputs.

    Attributes:
        version: that computed them.
        signature: that was called.
        outputs: name to array.
    """

    version: int
    signature: str
    outputs: Mapping[str, Any]


class Observation:
    """Facts about a request, for metrics and the log.

    Attributes:
        signature: set once it is known to exist: names made up by clients would let metrics grow without bound.
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
        output_names: Sequence[str] = (),
    ) -> Answer:
        """Returns a model's answer.

        Args:
            target: the model.
            read: reads the request's tensors for a signature.
            deadline: of time.monotonic.
            observed: receives the signature.
            output_names: of the outputs to return; empty: all.

        Raises:
            RequestError: with the reason.
        """
        self.check_name(target.name)
        with self._admission.slot(deadline):
            model = self.versions.ready(target.version)
            signature = model.signature(target.signature)
            observed.signature = signature.name
            self._check_allowed(signature)
            _check_outputs(signature, output_names)
            tensors = read(signature)
            num_rows = signature.num_rows(tensors)
            if num_rows > self._max_rows:
                raise invalid(
                    f"inputs: too many rows (got {num_rows}); a request may have {self._max_rows} (--max-rows)"
                )
            self.metrics.candidates.labels(signature.name).observe(num_rows)
            outputs = (signature.empty_outputs() if num_rows == 0 else None) or model.run(signature, tensors)
            selected = {name: outputs[name] for name in output_names} if output_names else outputs
            return Answer(model.version, signature.name, selected)

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
        """Counts and times a request, and logs it if it fails.

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
                _LOG.exception("api=%s method=%s failed", api, method)
                raise RequestError(Code.INTERNAL, f"server: failed ({type(error).__name__}); see its log") from error
        except RequestError as refused:
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
            raise RequestError(
                Code.PERMISSION_DENIED,
                f"signature_name: changes the model (got '{signature.name}'); start the server with --allow-updates",
            )


def _check_outputs(signature: Signature, output_names: Sequence[str]) -> None:
    if unknown := sorted(set(output_names) - signature.outputs.keys()):
        known = ", ".join(sorted(signature.outputs))
        raise invalid(f"output_filter: {', '.join(unknown)} unknown; signature {signature.name} gives {known}")

"""Runs the server under test as a separate process."""

import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from sangam.components.processes.group import ProcessGroup
from sangam.components.server.client import connect
from sangam.components.steps.infra_validator.predict import Ask, RequestFailed, in_short
from sangam.components.steps.infra_validator.rows import Tensors, Unfit
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import read_end
from sangam.schemas.spec.serving import Load

MODULE = "sangam.components.server"
_NAME = "candidate"
_POLL_S = 0.05
_REQUEST_S = 60.0
"""Timeout of one request, within the timeout of all."""
_GONE_S = 2.0
"""Seconds from a broken connection to the end of the process that broke it."""
_GRACE_S = 5.0
_NOT_THE_MODELS_FAULT = (
    "MemoryError",
    "ResourceExhaustedError",
    "bad_alloc",
    "No space left",
    "Too many open files",
    "to bind",
)
_REFUSAL = re.compile(r" refused=\w+ served=\w+: (.*)")
"""The server's log line on a model that it cannot serve."""


class Server:
    """A server that is ready.

    Attributes:
        load_s: time from the start until it was ready.
    """

    def __init__(self, process: ProcessGroup, log: "_Log", address: str, load_s: float, timeout_s: float):
        self.load_s = load_s
        self._process, self._log, self._address = process, log, address
        self._timeout_s, self._end = timeout_s, time.monotonic() + timeout_s

    @contextmanager
    def connect(self) -> Iterator[Ask]:
        """Opens a connection."""
        with connect(self._address, _NAME) as client:

            def ask(signature: str, tensors: Tensors) -> Tensors:
                try:
                    outputs = client.predict(signature, tensors, self._time_for_a_request())
                    # Outputs of a message are unordered; error messages need a fixed order.
                    return dict(sorted(outputs.items()))
                except grpc.RpcError as error:
                    raise self._failure(error) from error

            yield ask

    def core_s(self) -> float:
        """Returns the processor time that the server has taken.

        Raises:
            Unfit: it has ended.
        """
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            raise Unfit(f"the server ended; its log ends with: {self._log.tail()}") from None
        user, system = 11, 12  # proc(5), counted from the state.
        return (int(fields[user]) + int(fields[system])) / os.sysconf("SC_CLK_TCK")

    def _time_for_a_request(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise Unfit(f"the checks did not end within serving.timeout_s {self._timeout_s:g}")
        return min(left, _REQUEST_S)

    def _failure(self, error: grpc.RpcError) -> Exception:
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            code = self._process.wait_for(_GONE_S)
            if code is not None:
                _raise_if_killed(code, self._log)
                return Unfit(f"the server ended ({_how(code)}) at a request; its log ends with: {self._log.tail()}")
        self._time_for_a_request()
        return RequestFailed(error.code().name, error.details() or "")


class _Log:
    """A process's part of a log file."""

    def __init__(self, path: Path):
        self.path = path
        self._start = path.stat().st_size if path.exists() else 0

    def text(self) -> str:
        return read_end(self.path, 65536, start=self._start)

    def refusal(self) -> str:
        """Returns the server's last log line on a model that it cannot serve; empty if there is none."""
        refusals = _REFUSAL.findall(self.text())
        return in_short(refusals[-1], 600) if refusals else ""

    def tail(self) -> str:
        """Returns the last lines, joined into one."""
        return in_short(" | ".join(self.text().strip().splitlines()[-3:]), 600) or "(nothing)"


@contextmanager
def serve(model_dir: Path, *, log: Path, load: Load, timeout_s: float) -> Iterator[Server]:
    """Starts a server on ports that the kernel chooses, and ends it afterwards.

    If this process is killed, the kernel ends the server.

    Args:
        model_dir: folder of the SavedModel.
        log: file to which the server's output is appended.
        load: load that it must admit.
        timeout_s: timeout for the server to be ready; and again for all requests.

    Raises:
        Unfit: if the server cannot serve this model.
        UserError: if it could not serve any model.
    """
    with tempfile.TemporaryDirectory(prefix="sangam-serving-check-") as scratch:
        address_file, started = Path(scratch) / "address.json", time.monotonic()
        kept = _Log(log)
        with _start(model_dir, address_file, log, load) as process:
            addresses = _wait(process, address_file, kept, timeout_s)
            yield Server(process, kept, addresses["grpc"], time.monotonic() - started, timeout_s)


def _start(model_dir: Path, address_file: Path, log: Path, load: Load) -> ProcessGroup:
    arguments = {
        "--name": _NAME,
        "--grpc-port": 0,
        "--rest-port": 0,
        "--address-file": address_file,
        "--parent-pid": os.getpid(),
        "--grace-s": 2,
        "--max-rows": max(10_000, load.candidates),
        "--max-queued": max(32, load.clients),
    }
    words = [str(word) for pair in arguments.items() for word in pair]
    return ProcessGroup([MODULE, str(model_dir), *words], log=log, grace_s=_GRACE_S)


def _wait(process: ProcessGroup, address_file: Path, log: _Log, timeout_s: float) -> dict[str, str]:
    """Returns the addresses of the server once it is ready."""
    end = time.monotonic() + timeout_s
    while not address_file.exists():
        code = process.exit_code()
        if code is not None:
            _raise_if_killed(code, log)
            raise Unfit(f"the server could not load the model: {log.refusal() or f'{_how(code)}; {log.tail()}'}")
        if time.monotonic() > end:
            raise Unfit(f"the server was not ready within serving.timeout_s {timeout_s:g}; log: {log.tail()}")
        time.sleep(_POLL_S)
    addresses: dict[str, str] = json.loads(address_file.read_text(encoding="utf-8"))
    return addresses


def _raise_if_killed(code: int, log: _Log) -> None:
    """Raises if the server would have ended with any model: no memory, port or disk space, or a fault of the server."""
    text = log.text()
    cause = next((word for word in _NOT_THE_MODELS_FAULT if word in text), None)
    # A model can cause a refusal or a crash of TensorFlow. SIGKILL usually comes from the kernel, out of memory.
    is_the_models_fault = log.refusal() if code > 0 else code != -signal.SIGKILL
    if is_the_models_fault and cause is None:
        return
    raise UserError(
        f"infra_validator: the server could not work here (got {cause or _how(code)}); the model is not the cause: "
        f"see the log, give the machine more memory or disk if needed, and run again. Log: {log.path}, ending with: "
        f"{log.tail()}"
    )


def _how(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"

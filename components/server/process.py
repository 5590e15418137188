"""A server's life: start, serve, drain, end."""

import json
import logging
import os
import select
import signal
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING

from sangam.components.server.announcing import announced
from sangam.components.server.control import DRIFT, LISTEN, METRICS, STATE, Control
from sangam.components.server.options import Options
from sangam.components.server.ports import refuse_taken
from sangam.components.server.room import return_large_blocks
from sangam.components.server.supervisor import supervise
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.host.early_sigterm import exit_on
from sangam.schemas.host.needless_imports import leave_out_needless
from sangam.schemas.host.plain_text import LOG_FORM, log_to_stderr
from sangam.schemas.host.stop_signal import StopSignal

if TYPE_CHECKING:
    from sangam.components.server.serving import Serving

_LOG = logging.getLogger("sangam.components.server")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SIGNAL_S = 1.0


def serve(options: Options) -> int:
    """Serves until SIGTERM, SIGINT or the parent's end.

    Returns:
        The exit code: FAILED if the single model of the directory cannot be served.

    Raises:
        UserError: if it cannot listen on the given address.
    """
    exit_on(signal.SIGTERM, signal.SIGINT, code=ExitCode.DONE)
    if options.parent_pid:
        _stop_with(options.parent_pid)
    _quieten(options)
    if options.control:
        return _serve(options)
    refuse_taken(options)
    if options.host not in _LOOPBACK:
        _LOG.warning(
            "host=%s: no authentication: every client that reaches this address may send requests", options.host
        )
    return supervise(options) if options.processes > 1 else _serve(options)


def _serve(options: Options) -> int:
    """Serves in this process: the only one, or one of several."""
    return_large_blocks()
    leave_out_needless()
    from sangam.components.server.serving import Serving  # TensorFlow reads its environment when it is imported.

    stopped = StopSignal(signal.SIGTERM, signal.SIGINT)
    serving = Serving(options)
    try:
        ports = _open(serving, options)
        serving.versions.start()
        while not stopped.is_set() and not serving.versions.wait_for_first(0.1):
            pass
        if stopped.is_set():
            return ExitCode.DONE
        if not serving.versions.is_ready() and (options.directory / MODEL_FILE).is_file():
            return ExitCode.FAILED  # The log has the reason; there will be no other version.
        if ports is None:
            _wait(stopped)
        else:
            with announced(options, name=serving.name, ports=ports, is_empty=not serving.versions.states()):
                _wait(stopped)
        return ExitCode.DONE
    finally:
        serving.stop(options.grace_s)


def end(code: int) -> None:
    """Ends this process at once.

    A normal exit would wait for computations after the grace period, and crashes a thread that is loading a model.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _open(serving: "Serving", options: Options) -> tuple[int, int] | None:
    """Listens, and returns the ports. One of several processes waits to be told: None."""
    if options.control is None:
        return serving.listen()

    def state() -> bytes:
        versions = serving.versions
        served = versions.served_version() if versions.wait_for_first(0) else None
        told = {"is_checked": versions.wait_for_first(0), "version": served, "is_empty": not versions.states()}
        return json.dumps({"name": serving.name, **told}).encode()

    def listen() -> bytes:
        return json.dumps(serving.listen()).encode()

    def counted() -> bytes:
        found = serving.drift.counted()
        return found.packed() if found else b""

    Control(options.control, {STATE: state, LISTEN: listen, METRICS: serving.metrics.text, DRIFT: counted})
    return None


def _wait(stopped: StopSignal) -> None:
    # With a timeout: the kernel may give the signal to another thread, which does not wake this one.
    while not stopped.wait(_SIGNAL_S):
        pass


def _stop_with(parent_pid: int) -> None:
    """Sends SIGTERM to this process when another one ends, for any reason.

    PR_SET_PDEATHSIG would follow the thread that started this process, which may end long before its own process.
    """
    try:
        parent = os.pidfd_open(parent_pid)
    except ProcessLookupError:
        os._exit(0)

    def wait() -> None:
        select.select([parent], [], [])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def _quieten(options: Options) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.Formatter.converter = time.gmtime
    form = LOG_FORM.replace("%(asctime)s", "%(asctime)sZ")
    if options.control:
        form = form.replace("%(message)s", f"worker={options.control.name} %(message)s")
    log_to_stderr(level=logging.WARNING, form=form, force=True)
    _LOG.setLevel(logging.INFO)
    for noisy in ("tensorflow", "absl", "aiohttp", "grpc"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")

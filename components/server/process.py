"""A server's life: start, serve, drain, end."""

import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING

from sangam.components.server.options import Options, flag
from sangam.components.server.room import return_large_blocks
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.contracts.monitoring import Target
from sangam.schemas.errors import UserError
from sangam.schemas.host.early_sigterm import exit_on
from sangam.schemas.host.files import write_whole
from sangam.schemas.host.needless_imports import leave_out_needless
from sangam.schemas.host.plain_text import LOG_FORM, log_to_stderr

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
    _check_ports(options)
    _quieten()
    return_large_blocks()
    if options.host not in _LOOPBACK:
        _LOG.warning(
            "host=%s: no authentication: every client that reaches this address may send requests", options.host
        )

    leave_out_needless()
    from sangam.components.server.serving import Serving  # TensorFlow reads its environment when it is imported.

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    serving = Serving(options)
    try:
        serving.start()
        while not stopped.is_set() and not serving.versions.wait_for_first(0.1):
            pass
        if not stopped.is_set():
            if not serving.versions.is_ready() and (options.directory / MODEL_FILE).is_file():
                return ExitCode.FAILED  # The log has the reason; there will be no other version.
            _announce(options, serving)
        # With a timeout: the kernel may give the signal to another thread, which does not wake this one.
        while not stopped.wait(_SIGNAL_S):
            pass
        return ExitCode.DONE
    finally:
        if target := _target(options, serving.name):
            target.withdraw()
        serving.stop(options.grace_s)


def end(code: int) -> None:
    """Ends this process at once.

    A normal exit would wait for computations after the grace period, and crashes a thread that is loading a model.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _announce(options: Options, serving: "Serving") -> None:
    addresses = {"grpc": options.address(serving.grpc.port), "rest": options.address(serving.rest.port)}
    if options.address_file:
        write_whole(options.address_file, json.dumps(addresses) + "\n")
    if target := _target(options, serving.name):
        try:
            target.announce(addresses["rest"])
        except OSError as error:
            _LOG.warning("Prometheus cannot discover this server: cannot write %s (%s)", target.file, error)
    is_empty = not serving.versions.states()
    if options.as_json:
        print(json.dumps({"name": serving.name, **addresses, "has_version": not is_empty}), flush=True)
        return
    print(f"serving {serving.name}: gRPC {addresses['grpc']}, REST http://{addresses['rest']}", flush=True)
    if is_empty:
        print(
            f"nothing to serve yet: {options.directory} has no version (got an empty folder of versions); requests are "
            "refused and /readyz says 503 until one is pushed there",
            flush=True,
        )


def _target(options: Options, name: str) -> Target | None:
    """Returns the target by which Prometheus finds this server; None without a target file."""
    if options.metrics_target is None:
        return None
    labels = {"job": "sangam-server", "ranker": name, "process": "server", "instance": options.metrics_target.stem}
    return Target(options.metrics_target, labels)


def _check_ports(options: Options) -> None:
    """Refuses a port in use at once, not only after TensorFlow's import."""
    for name in ("grpc_port", "rest_port"):
        address = options.address(getattr(options, name))
        try:
            family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
            socket.create_server((options.host, getattr(options, name)), family=family).close()
        except OSError as error:
            raise UserError(
                f"{flag(name)}: cannot listen (got {address}: {error.strerror}); give a free port, or 0"
            ) from error


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


def _quieten() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.Formatter.converter = time.gmtime
    log_to_stderr(level=logging.WARNING, form=LOG_FORM.replace("%(asctime)s", "%(asctime)sZ"), force=True)
    _LOG.setLevel(logging.INFO)
    for noisy in ("tensorflow", "absl", "aiohttp", "grpc"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")

"""One process of the tf.data service pool: `python -m trainer_module.launch.data_service dispatcher|worker ...`.

SIGTERM ends it at once: its clients must handle lost workers anyway. On one machine it takes any free port, writes its
address to a file once it serves, and ends with its parent. In its own pod it serves on a given port; a dispatcher with
a journal continues after a restart, and a worker is found again under the address that it advertises.
"""

import argparse
import threading
import time
from pathlib import Path
from typing import Any

from schemas.early_sigterm import exit_on
from schemas.files import write_whole
from schemas.needless_imports import leave_out_needless
from schemas.parent_process import end_with_parent

_HEARTBEAT_MS = 1000


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainer_module.launch.data_service")
    parser.add_argument("role", choices=["dispatcher", "worker"])
    parser.add_argument("--port", type=int, default=0, help="to serve on; 0 for any")
    parser.add_argument("--journal", type=Path, help="folder of a dispatcher that may be started again")
    dispatcher = parser.add_mutually_exclusive_group()
    dispatcher.add_argument("--dispatcher", help="host:port, for a worker")
    dispatcher.add_argument("--dispatcher-file", type=Path, help="where a dispatcher that starts writes its address")
    parser.add_argument("--advertise", help="host:port under which ranks reach a worker; none: on this machine")
    parser.add_argument("--parent-pid", type=int, help="process to end with")
    parser.add_argument("--address-file", type=Path, help="where to write the address")
    return parser.parse_args()


def _serve(arguments: argparse.Namespace) -> Any:
    import tensorflow as tf  # It takes seconds, in which SIGTERM must end the process too.

    service = tf.data.experimental.service
    if arguments.role == "worker":
        own = arguments.advertise or "localhost:%port%"
        return service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=arguments.dispatcher or _read_when_there(arguments.dispatcher_file),
                port=arguments.port,
                worker_address=own,
                data_transfer_address=own,
                heartbeat_interval_ms=_HEARTBEAT_MS,
            )
        )
    journal = arguments.journal
    return service.DispatchServer(
        service.DispatcherConfig(
            port=arguments.port,
            work_dir=str(journal) if journal else None,
            fault_tolerant_mode=journal is not None,
            worker_timeout_ms=10 * _HEARTBEAT_MS,
        )
    )


def _read_when_there(file: Path) -> str:
    # Whoever has started both processes ends this one if the dispatcher does not come.
    while not file.exists():
        time.sleep(0.05)
    return file.read_text()


def main() -> None:
    """Serves until told to stop."""
    exit_on()
    leave_out_needless()
    arguments = _arguments()
    if arguments.parent_pid is not None:
        end_with_parent(arguments.parent_pid)
    server = _serve(arguments)
    if arguments.address_file:
        write_whole(arguments.address_file, server._address)
    threading.Event().wait()


if __name__ == "__main__":
    main()

"""One process of the tf.data service pool: `python -m trainer_module.data_service dispatcher|worker ...`.

It writes its address to a file once it serves, and ends on SIGTERM or with its parent.
"""

import argparse
import signal
import threading
from pathlib import Path

import tensorflow as tf

from trainer_module.processes import end_with_parent

_HEARTBEAT_MS = 1000


def main() -> None:
    """Serves until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["dispatcher", "worker"])
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--address-file", type=Path, required=True)
    parser.add_argument("--dispatcher", help="host:port, for a worker")
    arguments = parser.parse_args()
    end_with_parent(arguments.parent_pid)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    service = tf.data.experimental.service
    if arguments.role == "dispatcher":
        server = service.DispatchServer(service.DispatcherConfig(port=0, worker_timeout_ms=10 * _HEARTBEAT_MS))
        address = server.target.split("://")[1]
    else:
        server = service.WorkerServer(
            service.WorkerConfig(dispatcher_address=arguments.dispatcher, heartbeat_interval_ms=_HEARTBEAT_MS)
        )
        address = server._address
    whole = arguments.address_file.with_suffix(".tmp")
    whole.write_text(address)
    whole.rename(arguments.address_file)
    while not stop.wait(1.0):
        pass
    server._stop()


if __name__ == "__main__":
    main()

"""Where the ranks of one machine find each other: Horovod's own rendezvous server, on the loopback interface."""

import threading
from types import TracebackType

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
from typing_extensions import Self

_HOST, _LOOPBACK, _INTERFACE = "localhost", "127.0.0.1", "lo"


class Rendezvous:
    """Serves the ranks of one job while it is open; `horovodrun` does the same, on all interfaces and through ssh."""

    def __init__(self, ranks: int):
        self._slots = get_host_assignments(parse_hosts(f"{_HOST}:{ranks}"), ranks)
        self._server = RendezvousHTTPServer((_LOOPBACK, 0), RendezvousHandler, 0)
        self._server.init(self._slots)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="rendezvous", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environment(self, rank: int) -> dict[str, str]:
        """Returns what a rank's process must find in its environment."""
        port = self._server.server_address[1]
        job = create_run_env_vars(_LOOPBACK, [_INTERFACE], port)
        return {key: str(value) for key, value in (job | create_slot_env_vars(self._slots[rank])).items()}

"""A host's connections to its coordinator."""

import http.client
import logging
import select

from pydantic import ValidationError

from sangam.schemas.errors import UserError
from sangam.trainer_module.launch.messages import Command, Heartbeat, Lifeline
from sangam.trainer_module.launch.rendezvous import HOST_PATH, LIFELINE_PATH, MAX_BODY_BYTES

_LOG = logging.getLogger(__name__)
_REPLY_S = 2.0


class Link:
    """Sends heartbeats, each on a new connection, and holds the lifeline."""

    def __init__(self, address: str):
        """Takes the coordinator's address.

        Args:
            address: host:port.

        Raises:
            UserError: the address is invalid.
        """
        self.host, _, port = address.rpartition(":")
        if not self.host or not port.isdecimal():
            raise UserError(f"--coordinator: not an address (got {address!r}); give host:port")
        self.port = int(port)
        self._lifeline: http.client.HTTPConnection | None = None

    def send(self, heartbeat: Heartbeat) -> Command | None:
        """Sends a heartbeat; returns the reply, or None without one."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_REPLY_S)
        try:
            connection.request("POST", HOST_PATH, heartbeat.model_dump_json())
            reply = connection.getresponse()
            return Command.model_validate_json(reply.read(MAX_BODY_BYTES)) if reply.status == http.client.OK else None
        except (OSError, http.client.HTTPException, ValidationError) as error:
            _LOG.debug("no reply: %r", error)
            return None
        finally:
            connection.close()

    def hold(self, lifeline: Lifeline) -> None:
        """Opens the lifeline, unless it is already open to this coordinator.

        While the coordinator reads it, only the end of this process may close it: closing it reports a death.
        """
        if self._lifeline is not None:
            # A lifeline has no reply: it becomes readable when the coordinator closes it.
            if not select.select([self._lifeline.sock], [], [], 0)[0]:
                return
            self._lifeline.close()
            self._lifeline = None
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_REPLY_S)
        try:
            connection.request("POST", LIFELINE_PATH, lifeline.model_dump_json())
        except OSError as error:
            _LOG.debug("no lifeline: %r", error)
            connection.close()
        else:
            self._lifeline = connection

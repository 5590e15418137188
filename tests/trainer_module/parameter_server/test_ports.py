"""The port of a parameter server: where it cannot listen it says why; strangers take neither its calls nor memory."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.trainer_module.parameter_server.calls import Status
from sangam.trainer_module.parameter_server.server import Server
from sangam.trainer_module.parameter_server.wire import HEAD, Caller, encode
from tests.errors import place_and_value, tells
from tests.trainer_module.parameter_server.sample_lanes import ATTEMPT, MAX_BYTES, echo, lane_to, serving
from tests.trainer_module.sample_job import declared, write_job

pytestmark = pytest.mark.processes


def test_a_taken_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=place_and_value("parameter server", address)):
            Server(echo, attempt=ATTEMPT, address=address, ranks=1, max_message_bytes=MAX_BYTES)


@pytest.mark.long
def test_a_server_process_without_its_address_ends_with_one_line_and_no_address_file(tmp_path: Path) -> None:
    job_file = write_job(tmp_path, declared(sync={"kind": "async"}, parameter_servers=1), ())
    # An address for documentation (RFC 5737): no machine has it.
    command = [
        sys.executable,
        "-m",
        "sangam.trainer_module.parameter_server",
        str(job_file),
        str(os.getpid()),
        "0",
        "a-0",
    ]
    done = subprocess.run([*command, "--host", "192.0.2.1"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == ExitCode.MISTAKE, done.stderr
    assert tells(done.stderr, "parameter server", "192.0.2.1:0")
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "logs").glob("parameter-server-*"))


@pytest.fixture
def strangers() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for each in opened:
        each.close()


def test_strangers_take_neither_the_threads_nor_the_memory_of_ranks(strangers: list[Any]) -> None:
    with serving(echo) as (server, address):
        for _ in range(200):
            strangers.append(socket.create_connection(("127.0.0.1", server.port), 5))
        (sent,) = lane_to(address).call("pull", [np.arange(3)]).result()
        assert sent.tolist() == [0, 1, 2]
        assert len(server._threads) < 50
        # A head that promises more than a message may have; one of another attempt promises anything.
        huge = bytearray(b"".join(encode(0, Caller(ATTEMPT + 1, 0, 0), [])))
        huge[-8:] = (2**40).to_bytes(8, "little")
        stranger = socket.create_connection(("127.0.0.1", server.port), 5)
        stranger.sendall(huge)
        head = stranger.recv(HEAD.size, socket.MSG_WAITALL)
        assert HEAD.unpack(head)[1] == Status.REFUSED
        stranger.close()


def test_a_message_beyond_the_limit_is_refused_with_both_sizes() -> None:
    with serving(echo) as (_, address):
        lane = lane_to(address)
        with pytest.raises(RuntimeError, match=f"at most {MAX_BYTES}"):
            lane.call("push", [np.zeros(MAX_BYTES + 1, np.uint8)]).result()
        # The connection ended, the next call makes another.
        assert lane.call("push", [np.zeros(3, np.uint8)]).result()[0].tolist() == [0, 0, 0]

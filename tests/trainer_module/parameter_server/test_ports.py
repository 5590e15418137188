"""The port of a parameter server: where it cannot listen it says why; strangers take neither its calls nor memory."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.trainer_module.parameter_server.client import _PASSING
from sangam.trainer_module.parameter_server.service import serve
from tests.errors import place_and_value, tells
from tests.trainer_module.sample_job import declared, write_job

pytestmark = pytest.mark.processes
NO_METHODS = grpc.method_handlers_generic_handler("none", {})
MAX_BYTES = 1_000_000


def test_a_taken_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=place_and_value("parameter server", address)):
            serve(NO_METHODS, address=address, ranks=1, ahead=1, max_message_bytes=MAX_BYTES)


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


def test_strangers_take_neither_the_calls_nor_the_memory_of_ranks() -> None:
    echo = {"echo": grpc.unary_unary_rpc_method_handler(lambda request, _: request)}
    handler, ended = grpc.method_handlers_generic_handler("ps", echo), threading.Event()

    def nothing() -> Iterator[bytes]:
        ended.wait(60)
        yield from ()

    server, port = serve(handler, address="127.0.0.1:0", ranks=1, ahead=1, max_message_bytes=MAX_BYTES)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            silent = channel.stream_unary("/ps/echo")
            calls = [silent.future(nothing()) for _ in range(200)]
            time.sleep(0.5)
            ask, answer, begun = channel.unary_unary("/ps/echo"), None, time.monotonic()
            while answer is None:
                assert time.monotonic() - begun < 15
                try:
                    answer = ask(b"pull", timeout=10)
                except grpc.RpcError as error:  # A rank calls again.
                    assert error.code() in _PASSING
                    time.sleep(0.1)
            assert answer == b"pull"
            with pytest.raises(grpc.RpcError) as refused:
                ask(bytes(MAX_BYTES + 1), timeout=10)
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            ended.set()
            for call in calls:
                call.cancel()
    finally:
        server.stop(None).wait()

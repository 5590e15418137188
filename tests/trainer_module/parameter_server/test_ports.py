"""A parameter server that cannot listen says where and why, and ends."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from schemas.contracts.exit_codes import ExitCode
from schemas.errors import UserError
from tests.errors import place_and_value, tells
from tests.trainer_module.sample_job import declared, write_job
from trainer_module.parameter_server.service import serve

pytestmark = pytest.mark.processes


def test_a_taken_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=place_and_value("parameter server", address)):
            serve(grpc.method_handlers_generic_handler("none", {}), address=address, ranks=1, ahead=1)


def test_a_server_process_without_its_address_ends_with_one_line_and_no_address_file(tmp_path: Path) -> None:
    job_file = write_job(tmp_path, declared(sync={"kind": "async"}, parameter_servers=1), ())
    # An address for documentation (RFC 5737): no machine has it.
    command = [sys.executable, "-m", "trainer_module.parameter_server", str(job_file), str(os.getpid()), "0", "a-0"]
    done = subprocess.run([*command, "--host", "192.0.2.1"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == ExitCode.MISTAKE, done.stderr
    assert tells(done.stderr, "parameter server", "192.0.2.1:0")
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "logs").glob("parameter-server-*"))

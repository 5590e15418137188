"""How Beam runs: in this process, and without asking for anything beyond this machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import outside
from tests.beam_args import BEAM_ARGS

CONNECT = """
import socket
with socket.create_server(("127.0.0.1", 0)) as here, socket.create_connection(here.getsockname()):
    pass
try:
    socket.create_connection(("nowhere.invalid", 443))
except OSError:
    pass
"""
RUN = """
import sys
import apache_beam as beam
with beam.Pipeline(argv=sys.argv[1:]) as pipeline:
    _ = pipeline | beam.Create([1, 2]) | beam.Map(print)
"""


def run(code: str, *words: str, file: Path) -> str:
    with outside.told(file):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_process_that_asks_for_another_machine_is_told(tmp_path: Path) -> None:
    run(CONNECT, file=tmp_path / "outside.txt")
    [line] = (tmp_path / "outside.txt").read_text().splitlines()
    assert line.startswith("socket.getaddrinfo nowhere.invalid by")


@pytest.mark.slow
def test_a_pipeline_with_our_arguments_asks_for_no_other_machine(tmp_path: Path) -> None:
    assert run(RUN, *BEAM_ARGS, file=tmp_path / "outside.txt").split() == ["1", "2"]
    assert not (tmp_path / "outside.txt").exists(), (tmp_path / "outside.txt").read_text()


@pytest.mark.slow
def test_the_runner_stays_in_this_process_with_one_worker() -> None:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import DirectOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    pipeline = beam.Pipeline(argv=list(BEAM_ARGS))
    options = pipeline.options.view_as(DirectOptions)
    assert type(pipeline.runner) is FnApiRunner
    assert (options.direct_running_mode, options.direct_num_workers) == ("in_memory", 1)
    assert options.direct_runner_bundle_repeat == 0

"""Several processes at one address: what is decided without starting any."""

import dataclasses
import socket
from pathlib import Path

import pytest

from sangam.components.server.control import Control, ask, is_too_long
from sangam.components.server.options import Options, arguments_of, parse
from sangam.components.server.ports import held, refuse_taken
from sangam.components.server.supervisor import State, _agreed
from sangam.components.server.workers_metrics import merged, page_of_all
from sangam.schemas.errors import UserError
from tests.errors import tells

_ONE = b'# HELP m_total Some.\n# TYPE m_total counter\nm_total{code="a b"} 1.0\n# HELP g More.\n# TYPE g gauge\ng 2.0\n'
_OTHER = _ONE.replace(b"1.0", b"5.0")


def _listening(port: int) -> socket.socket:
    """Returns a socket that listens as a worker does."""
    worker = socket.create_server(("127.0.0.1", port), reuse_port=True)
    worker.settimeout(10)
    return worker


def test_a_command_line_gives_its_options_back(tmp_path: Path) -> None:
    options = Options(tmp_path, name="-x y", processes=3, map_tables=True, control=tmp_path / "0", poll_s=0.5)
    assert parse(arguments_of(options)) == options


def test_clients_cannot_change_one_of_several_processes(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        Options(tmp_path, processes=2, allow_updates=True)
    assert tells(str(error.value), "--allow-updates", "(got --processes 2)")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([None, State("m", True, 1, False)], None),
        ([State("m", False, None, True), State("m", True, 1, False)], None),
        ([State("m", True, 1, False), State("m", True, 2, False)], None),
        ([State("m", True, 2, False), State("m", True, 2, False)], State("m", True, 2, False)),
        ([State("m", True, None, True), State("m", True, None, True)], State("m", True, None, True)),
    ],
)
def test_all_begin_to_listen_with_one_version(states: list[State | None], expected: State | None) -> None:
    assert _agreed(states) == expected


def test_held_ports_are_the_workers_alone(tmp_path: Path) -> None:
    with held(Options(tmp_path, grpc_port=0, rest_port=0)) as ports:
        with _listening(ports[1]) as one, _listening(ports[1]) as other:
            connections = [socket.create_connection(("127.0.0.1", ports[1])) for _ in range(50)]
            for connection in (*connections, one.accept()[0], other.accept()[0]):
                connection.close()
        # No worker listens.
        with pytest.raises(UserError) as error:
            refuse_taken(Options(tmp_path, grpc_port=0, rest_port=ports[1]))
    assert tells(str(error.value), "--rest-port", f"(got 127.0.0.1:{ports[1]}")


def test_the_metrics_of_all_are_one_page_with_a_label_for_each() -> None:
    assert merged({"0": _ONE, "1": _OTHER}).decode() == (
        "# HELP m_total Some.\n# TYPE m_total counter\n"
        'm_total{worker="0",code="a b"} 1.0\nm_total{worker="1",code="a b"} 5.0\n'
        '# HELP g More.\n# TYPE g gauge\ng{worker="0"} 2.0\ng{worker="1"} 2.0\n'
    )


def test_a_process_that_is_silent_has_no_metrics(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    Control(folder / "0", {"metrics": lambda: _ONE})
    (folder / "1").write_text("left by a process that ended")
    assert page_of_all(folder) == merged({"0": _ONE})
    assert ask(folder / "0", "metrics") == _ONE
    assert is_too_long(Path("/" + "x" * 101))


def test_workers_share_the_cores(tmp_path: Path) -> None:
    one = Options(tmp_path)
    assert dataclasses.replace(one, processes=1_000).num_threads == 1
    assert dataclasses.replace(one, processes=1_000, threads=3).num_threads == 3

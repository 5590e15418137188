"""Starts a training's processes by forks of one that has imported TensorFlow: in half a second instead of ten.

The forked processes are the real ones: a launcher or a host, whose own nursery is a fork too, or a rank. Only Python's
start is saved. `test_launcher` and `test_daily_run` start theirs as users do.
"""

import atexit
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from sangam.components.processes.group import GRACE_S, ProcessGroup
from sangam.schemas.host.parent_process import adopt_orphans, end_with_parent
from sangam.trainer_module.launch import nursery
from sangam.trainer_module.launch.children import environment_of_all
from sangam.trainer_module.launch.nursery import Forked, Nursery
from tests.fakes import bad_disk, mounted_store
from tests.paths import REPOSITORY
from tests.trainer_module.launch.entered_network import enter

NETWORK = "SANGAM_TEST_NETWORK"
"""Variable with the name of the network namespace in which a process runs."""
_GROUP = "--group-of"
_LEADERS: list["Warm"] = []


def start(arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> "Warm":
    """Runs `python -m ...` as the leader of a process group; its parent is this process.

    Args:
        arguments: module and arguments.
        log: its output is added to it.
        environment: added to this process's.
    """
    forked = _nursery().start(["tests.trainer_module.launch.warm", *arguments], environment or {}, log)
    assert forked is not None, _log().read_text()[-3000:]
    leader = Warm(forked.pid)
    _LEADERS.append(leader)
    return leader


@contextmanager
def ended() -> Iterator[None]:
    """Ends what was started within, as a test that failed may have left it running."""
    before = len(_LEADERS)
    try:
        yield
    finally:
        while len(_LEADERS) > before:
            leader = _LEADERS.pop()
            # Once it was waited for, its id may be another's.
            if leader.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(leader.pid, signal.SIGKILL)
                leader.kill()
                leader.wait()


def fork_groups(output: Path) -> None:
    """Makes each `ProcessGroup` of this process a fork of this process as it is now, without threads.

    Args:
        output: where the output of groups without a log goes.
    """
    forks = _ForkedNursery(output, {})
    forks._begin()
    ProcessGroup.__init__ = _init_by(forks, output)  # type: ignore[method-assign]


@contextmanager
def forked_groups() -> Iterator[None]:
    """Makes each `ProcessGroup` of this process a fork of one that has imported TensorFlow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProcessGroup, "__init__", _init_by(_nursery(), _log()))
        yield


def _init_by(forks: Nursery, output: Path) -> Any:
    """Returns what stands for `ProcessGroup.__init__`."""

    def start_group(
        group: ProcessGroup,
        module_and_arguments: Sequence[str],
        *,
        log: Path | None = None,
        grace_s: float = GRACE_S,
        ends_with_parent: bool = False,
    ) -> None:
        parent = str(os.getpid()) if ends_with_parent else "0"
        words = ["tests.trainer_module.launch.warm", _GROUP, parent, *module_and_arguments]
        leader = forks.start(words, os.environ, (log or output).absolute())
        assert leader is not None, "the nursery of groups has ended"
        group._grace_s, group._leader, group.pid = grace_s, Warm(leader.pid), leader.pid  # type: ignore[assignment]

    return start_group


class Warm(Forked):
    """A forked process, with as much of `subprocess.Popen` as tests need."""

    def kill(self) -> None:
        """Ends the process."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Asks the process to end."""
        self.send_signal(signal.SIGTERM)


Process: TypeAlias = subprocess.Popen[bytes] | Warm
"""A process that was started, by a fork or as a program."""


class _ForkedNursery(Nursery):
    """A nursery that is forked from the process that asks for it, before that has any threads."""

    def __enter__(self) -> "Nursery":
        self._begin()
        return self

    def _begin(self) -> None:
        adopt_orphans()
        parent = os.getpid()
        self._channel, its_end = socket.socketpair()
        pid = os.fork()
        if pid:
            its_end.close()
            self._process = Warm(pid)  # type: ignore[assignment]
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._channel.close()
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for file, number in ((its_end.fileno(), 0), (log, 1), (log, 2)):
            os.dup2(file, number)
        its_end.close()
        os.close(log)
        os.environ.update(self._environment)
        _run_and_exit(lambda: nursery.main(str(parent)))


def _run_and_exit(run: Callable[[], None]) -> None:
    code = 1
    try:
        run()
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else bool(exit_.code)
    except BaseException:  # noqa: BLE001 As the interpreter would.
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@cache
def _folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="warm-")
    atexit.register(made.cleanup)
    return Path(made.name)


def _log() -> Path:
    return _folder() / "nursery.log"


@cache
def _nursery() -> Nursery:
    # Inert until a process's environment names a folder.
    preloaded = ":".join([bad_disk.preloaded(), mounted_store.preloaded()])
    made = Nursery(_log(), {**environment_of_all(), "LD_PRELOAD": preloaded, "OMP_NUM_THREADS": "1"})
    atexit.register(made.__exit__)
    # Its processes find `tests`, wherever the first of them is started from.
    with chdir(REPOSITORY):
        made._begin()
    return made


def _exec_in_this_process(_: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Stands for `os.execv` and `os.execve`: an export checks a model, and a command serves, as a new program."""
    os.environ.update(environment or {})
    sys.argv[:] = command[2:]

    def run() -> None:
        runpy.run_module(command[2], run_name="__main__", alter_sys=True)

    _run_and_exit(run)


if __name__ == "__main__":
    os.setsid()
    nursery.Nursery = _ForkedNursery  # type: ignore[misc]
    os.execv = os.execve = _exec_in_this_process  # type: ignore[assignment]
    if network := os.environ.pop(NETWORK, ""):
        enter(network)
    del sys.argv[0]
    if sys.argv[0] == _GROUP:
        if (parent := int(sys.argv[1])) != 0:
            end_with_parent(parent, signal.SIGTERM)
        del sys.argv[:2]
        logging.root.handlers.clear()  # TFX's.
    module = sys.argv[0]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

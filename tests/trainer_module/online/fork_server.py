"""Forks ranks from a process that has imported TensorFlow, so that a start takes a second and not ten.

`python -m tests.trainer_module.online.fork_server PARENT_PID` reads a line of JSON for each start and answers with one:
the ranks' exit codes. The forked processes are the real ranks; one of them may be told to kill itself at its n-th
access to a file below the job's folder, be it in the middle of a delta, a checkpoint or a segment, or some time after
its first step.
"""

import os

from sangam.schemas.host.needless_imports import leave_out_needless

if __name__ == "__main__":
    leave_out_needless()  # As a rank does.
    _ANSWERS = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is no answer.

import json
import signal
import sys
import threading
import time
import traceback
from typing import Any

from sangam.schemas.host.parent_process import end_with_parent
from sangam.trainer_module.__main__ import main

_ACCESSES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir"}


def _kill_at(folder: str, accesses: int, delay_s: float) -> None:
    """Arranges for this process to be killed at its n-th access to a file below a folder, or so long after it."""
    left = accesses

    def kill() -> None:
        time.sleep(delay_s)
        os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event not in _ACCESSES or not arguments or not str(arguments[0]).startswith(folder):
            return
        left -= 1
        if left == 0:
            threading.Thread(target=kill).start() if delay_s else kill()

    sys.addaudithook(hook)


def _rank(request: dict[str, Any], rank: int, parent_pid: int) -> None:
    os.environ.update(request["environments"][rank])
    log = os.open(request["logs"][rank], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if request["kill"] is not None and request["kill"]["rank"] == rank:
        _kill_at(request["folder"], request["kill"]["accesses"], request["kill"]["delay_s"])
    os._exit(main(request["job"], str(parent_pid), "", "0"))


def _start(request: dict[str, Any]) -> dict[int, int]:
    """Forks the ranks and waits for their end; one that fails takes the others with it. Returns exit codes."""
    parent, pids = os.getpid(), {}
    for rank in range(len(request["environments"])):
        pid = os.fork()
        if pid == 0:
            try:
                _rank(request, rank, parent)
            except BaseException:  # noqa: BLE001 As the interpreter would.
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)
        pids[pid] = rank
    codes: dict[int, int] = {}
    while len(codes) < len(pids):
        pid, status = os.wait()
        codes[pids[pid]] = os.waitstatus_to_exitcode(status)
        if codes[pids[pid]] != 0:
            for other in pids.keys() - {found for found, rank in pids.items() if rank in codes}:
                os.kill(other, signal.SIGKILL)
    return codes


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(_start(json.loads(line))), file=_ANSWERS, flush=True)

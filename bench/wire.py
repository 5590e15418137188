"""Runs ranks in network namespaces of their own, between which a network has a declared rate and round trip.

Needs root, `ip` and a C compiler. All traffic stays between the namespaces; they end with the block that made them.
"""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import processes
from bench.processes import Process
from sangam.schemas.contracts.training_job import RANK_ADDRESS
from sangam.trainer_module.launch.rendezvous import Rendezvous, environment, slots_of

_DEVICE, _MTU, _QUEUE = "wire", 32_000, 20_000
"""Of the namespaces' network: packets as large as a network interface takes from the kernel in one piece."""
_SETTINGS = {
    "tcp_congestion_control": "reno",  # Which every kernel has; the default differs from machine to machine.
    "tcp_slow_start_after_idle": "0",
    "tcp_rmem": "4096 4194304 16777216",
    "tcp_wmem": "4096 4194304 16777216",
}
_NEW_NET = 0x40000000


@contextlib.contextmanager
def wire(hosts: int, *, gbit_s: float, rtt_us: float) -> Iterator[list[str]]:
    """Makes namespaces and a network between them; yields their names.

    Args:
        hosts: namespaces; the first has the address 10.77.0.1.
        gbit_s: of each host, in each direction; 0: without a limit.
        rtt_us: round trip.

    Raises:
        SystemExit: it cannot be made here.
    """
    names = [f"sangam-bench-{os.getpid()}-{host}" for host in range(hosts)]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sangam-bench-"))
        program = f"{folder}/wire"
        _do("cc", "-O2", "-o", program, str(Path(__file__).with_suffix(".c")))
        for name in names:
            _do("ip", "netns", "add", name)
            stack.callback(_do, "ip", "netns", "del", name)
        for host, name in enumerate(names):
            stack.enter_context(_own_hosts(name, _address(host)))
        command = [program, str(gbit_s * 1e9), str(rtt_us), *names]
        between = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(between.kill)
        if between.stdout is None or between.stdout.readline() != "ready\n":
            raise SystemExit("bench: no network between namespaces: needs root and /dev/net/tun")
        for host, name in enumerate(names):
            _do("ip", "-n", name, "addr", "add", f"{_address(host)}/24", "dev", _DEVICE)
            _do("ip", "-n", name, "link", "set", _DEVICE, "up", "mtu", str(_MTU), "txqueuelen", str(_QUEUE))
            _do("ip", "-n", name, "link", "set", "lo", "up")
            # As clusters set them: a connection that was idle for a step would begin slowly again, and windows would
            # have to grow first.
            for setting, value in _SETTINGS.items():
                _do("ip", "netns", "exec", name, "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{setting}")
        yield names


def run_on(names: Sequence[str], command: Sequence[str], logs: Path, environment_: Mapping[str, str]) -> None:
    """Runs `python -m <command>` as one rank in each namespace and waits.

    Raises:
        SystemExit: with the end of a log, when a process fails.
    """
    with _inside(names[0]):  # The rendezvous server's socket stays where it was made.
        rendezvous = Rendezvous(len(names), hosts=len(names), address=_address(0))
    with rendezvous:
        slots = slots_of(len(names), len(names))
        ranks = []
        for host, (slot, name) in enumerate(zip(slots, names, strict=True)):
            place = environment(slot, address=_address(0), port=rendezvous.port, interface=_DEVICE)
            variables = {**environment_, **place, RANK_ADDRESS: _address(host)}
            ranks.append(Process(command, variables, prefix=("ip", "netns", "exec", name)))
        processes.run(ranks, logs)


@contextlib.contextmanager
def _own_hosts(name: str, address: str) -> Iterator[None]:
    """Has this machine's name mean an address inside a namespace: Horovod's sets of processes ask for no interface.

    `ip netns exec` puts what lies in this folder over /etc.
    """
    folder = Path("/etc/netns", name)
    folder.mkdir(parents=True)
    try:
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} {socket.gethostname()}\n")
        yield
    finally:
        shutil.rmtree(folder)
        with contextlib.suppress(OSError):  # Others have theirs there.
            folder.parent.rmdir()


def _address(host: int) -> str:
    return f"10.77.0.{host + 1}"


@contextlib.contextmanager
def _inside(name: str) -> Iterator[None]:
    """Has this thread make its sockets in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as home, Path(f"/var/run/netns/{name}").open() as there:
        if libc.setns(there.fileno(), _NEW_NET):
            raise SystemExit(f"bench: {name}: cannot be entered (got {os.strerror(ctypes.get_errno())}); needs root")
        try:
            yield
        finally:
            libc.setns(home.fileno(), _NEW_NET)


def _do(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SystemExit(f"bench: {' '.join(command)}: failed (got {getattr(error, 'stderr', '') or error})") from error

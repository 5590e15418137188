"""Two networks of their own, joined by a cable: what runs in one reaches the other by its address alone."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.trainer_module.launch.cluster_job import Place
from tests.trainer_module.launch.entered_network import HOSTS_FILES

INTERFACE = "eth0"
_ADDRESSES = ("10.231.7.1", "10.231.7.2")


class NoNetworksError(RuntimeError):
    """This machine lets nobody make network namespaces; the text says why."""


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NoNetworksError("there is no program `ip` (package iproute2)") from error
    except subprocess.CalledProcessError as error:
        raise NoNetworksError(f"ip {' '.join(arguments)}: {error.stderr.strip()}") from error


@contextmanager
def two_networks() -> Iterator[list[Place]]:
    """Makes the networks.

    Raises:
        NoNetworksError: it cannot.
    """
    names = [f"sangam-{os.getpid()}-{end}" for end in "ab"]
    made = []
    try:
        for name in names:
            _ip("netns", "add", name)
            made.append(name)
        _ip("link", "add", INTERFACE, "netns", names[0], "type", "veth", "peer", "name", INTERFACE, "netns", names[1])
        for name, address in zip(names, _ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", INTERFACE)
            for interface in ("lo", INTERFACE):
                _ip("-n", name, "link", "set", interface, "up")
            # As the kubelet writes it for a pod.
            (HOSTS_FILES / name).mkdir(parents=True)
            (HOSTS_FILES / name / "hosts").write_text(f"127.0.0.1 localhost\n{address} {socket.gethostname()}\n")
        yield [
            Place(address=address, interface=INTERFACE, network=name)
            for name, address in zip(names, _ADDRESSES, strict=True)
        ]
    finally:
        for name in made:
            _ip("netns", "delete", name)
            shutil.rmtree(HOSTS_FILES / name, ignore_errors=True)

"""The network interface on which a host's processes connect to other hosts."""

import socket

import psutil

from sangam.schemas.errors import UserError


def address_of(host: str, interface: str) -> str:
    """Returns the IPv4 address of an interface.

    Args:
        host: the host's name in errors.
        interface: name of the interface.

    Raises:
        UserError: the interface does not exist, or has no IPv4 address.
    """
    all_addresses = psutil.net_if_addrs()
    if interface not in all_addresses:
        raise UserError(
            f"cluster.launcher.network_interface: {host} has no such interface (got {interface}); use one of "
            f"{', '.join(all_addresses)}"
        )
    own = [each.address for each in all_addresses[interface] if each.family == socket.AF_INET]
    if not own:
        raise UserError(
            f"cluster.launcher.network_interface: has no IPv4 address on {host} (got {interface}); ranks and servers "
            "reach each other over IPv4 alone"
        )
    return own[0]


def refuse_unfit_for_horovod(host: str, interface: str) -> None:
    """Refuses an interface on which Horovod cannot reach this host.

    Args:
        host: the host's name in errors.
        interface: name of the interface.

    Raises:
        UserError: the interface does not exist, or other hosts cannot use the machine's name.
    """
    address_of(host, interface)
    if interface == "lo":
        return
    # Horovod 0.28 resolves the machine's name for some connections, on any interface: the context of a process
    # set does not receive it (horovod/common/gloo/gloo_context.cc, InitializeForProcessSet).
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise UserError(
            f"training: {host} cannot resolve its own name (got {name}: {error}); its /etc/hosts must give it "
            f"the address of {interface}, as in a pod"
        ) from error
    if address.startswith("127."):
        raise UserError(
            f"training: other hosts cannot reach {host} by its own address (got {address} for "
            f"{name}); its /etc/hosts must give the name the address of {interface}, as in a pod"
        )

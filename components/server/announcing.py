"""Tells where a server listens, once it does: to its user, to a file, to Prometheus."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sangam.components.server.options import Options
from sangam.schemas.contracts.monitoring import Target
from sangam.schemas.host.files import write_whole

_LOG = logging.getLogger("sangam.components.server")


@contextmanager
def announced(options: Options, *, name: str, ports: tuple[int, int], is_empty: bool) -> Iterator[None]:
    """Announces a server; Prometheus finds it within the block.

    Args:
        options: options of the server.
        name: name of the model.
        ports: those of gRPC and REST.
        is_empty: whether its folder has no version.
    """
    addresses = {what: options.address(port) for what, port in zip(("grpc", "rest"), ports, strict=True)}
    if options.address_file:
        write_whole(options.address_file, json.dumps(addresses) + "\n")
    target = _target(options, name)
    if target:
        try:
            target.announce(addresses["rest"])
        except OSError as error:
            _LOG.warning("Prometheus cannot discover this server: cannot write %s (%s)", target.file, error)
    _say(options, name, addresses, is_empty)
    try:
        yield
    finally:
        if target:
            target.withdraw()


def _target(options: Options, name: str) -> Target | None:
    """Returns the target by which Prometheus finds this server; None without a target file."""
    if options.metrics_target is None:
        return None
    labels = {"job": "sangam-server", "ranker": name, "process": "server", "instance": options.metrics_target.stem}
    return Target(options.metrics_target, labels)


def _say(options: Options, name: str, addresses: dict[str, str], is_empty: bool) -> None:
    if options.as_json:
        print(json.dumps({"name": name, **addresses, "has_version": not is_empty}), flush=True)
        return
    print(f"serving {name}: gRPC {addresses['grpc']}, REST http://{addresses['rest']}", flush=True)
    if is_empty:
        print(
            f"nothing to serve yet: {options.directory} has no version (got an empty folder of versions); requests are "
            "refused and /readyz says 503 until one is pushed there",
            flush=True,
        )

"""One cluster for all tests: a control plane, a node where the machine allows one, and what Sangam ships in it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import LOOPBACK, ControlPlane, control_plane
from tests.cluster.demo import Demo, run_demo
from tests.cluster.isolation import is_isolated
from tests.cluster.node import GATEWAY, Node, add_bridge, node
from tests.cluster.team import Team, prepare

PROGRAMS_VARIABLE, FOLDER_VARIABLE, IMAGE_VARIABLE = (
    "SANGAM_CLUSTER_PROGRAMS", "SANGAM_CLUSTER_FOLDER", "SANGAM_CLUSTER_IMAGE",
)  # fmt: skip
NODE_MARKER = "node"


_ended_with: list[int] = []


def pytest_sessionfinish(exitstatus: int) -> None:
    _ended_with.append(int(exitstatus))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Ends the process of `python -m tests.cluster` before Python tears its modules down.

    Once, after 38 tests had passed, an extension asked for the state of its module when that was gone
    (PyModule_GetState, SIGSEGV at exit; protobuf's upb does that without a check).
    """
    if FOLDER_VARIABLE in os.environ and _ended_with:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_ended_with[-1])


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """The control plane."""
    if PROGRAMS_VARIABLE not in os.environ:
        pytest.fail("these tests are run by `make test-cluster`, for instance ARGS='-k oom'", pytrace=False)
    if is_isolated():
        add_bridge()
    programs, folder = (Path(os.environ[name]) for name in (PROGRAMS_VARIABLE, FOLDER_VARIABLE))
    with control_plane(programs, folder, GATEWAY if is_isolated() else LOOPBACK) as made:
        yield made


@pytest.fixture(scope="session")
def team(plane: ControlPlane) -> Team:
    """The namespace of the runs, as infra/kubernetes prepares it, and its volumes on this machine."""
    return prepare(plane)


@pytest.fixture(scope="session")
def cluster_node(plane: ControlPlane) -> Iterator[Node]:
    """The node."""
    image = os.environ.get(IMAGE_VARIABLE)
    with node(plane, Path(image) if image else None) as made:
        yield made


@pytest.fixture(scope="session")
def demo(team: Team, cluster_node: Node) -> Demo:
    """The demo's pipeline after its run on the node."""
    return run_demo(team, cluster_node.image)

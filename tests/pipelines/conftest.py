"""A world for each test."""

from collections.abc import Iterator

import pytest

from tests.fakes.kfp_api import KfpServer
from tests.fakes.kfp_store import Store
from tests.pipelines.deploy.sample_server import NOON, World


@pytest.fixture
def world() -> Iterator[World]:
    store = Store(lambda: NOON)
    with KfpServer(store) as server:
        made = World(server)
        store.now = lambda: made.at
        yield made
        # The rule of rules: nothing that Sangam did has ended a run that was going.
        assert store.killed == []
        # Nor has it left anything that nobody can see.
        assert store.orphans == []

"""A rank that waits for the pushes of others beats meanwhile: it is not the one that hangs."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sangam.trainer_module.parameter_server import ahead as module
from sangam.trainer_module.parameter_server.ahead import Ahead, Pushed
from sangam.trainer_module.parameter_server.shard import Outcome

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("wait", [lambda ahead: ahead.drain(1), lambda ahead: ahead.close()], ids=["drain", "close"])
def test_a_rank_beats_while_its_pushes_wait_for_other_ranks(
    monkeypatch: pytest.MonkeyPatch, wait: Callable[[Ahead], object]
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    others_pushed = threading.Event()

    def finish(_: Any) -> Pushed:
        assert others_pushed.wait(60), "nobody beat"
        return Pushed(Outcome.APPLIED, 0, 1)

    # The first beat lets the others push: without one, finish fails.
    ahead = Ahead(0, pull=lambda *_: (), finish=finish, while_waiting=others_pushed.set)
    ahead.push(0, ())
    wait(ahead)
    assert others_pushed.is_set()
    [pushed] = ahead.results()
    assert pushed.outcome == Outcome.APPLIED

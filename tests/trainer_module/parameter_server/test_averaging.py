"""A rank's side of averaging: no update is lost, no step waits, and a lost server ends the rank."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sangam.schemas.spec.sync import Shadow
from sangam.trainer_module.parameter_server.averaging import Averaging

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


class _Answer:
    """An answer that a test gives when it wants to."""

    def __init__(self, sent: Any):
        self.sent = sent
        self._is_there = threading.Event()
        self._moved: Any = None

    def give(self, moved: Any) -> None:
        self._moved = moved
        self._is_there.set()

    def result(self) -> list[Any]:
        assert self._is_there.wait(60)
        if isinstance(self._moved, Exception):
            raise self._moved
        return [np.asarray(self._moved, np.float32)]


class _Server:
    """Notes what is sent to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answers: list[_Answer] = []

    def begin(self, method: str, arrays: list[Any]) -> _Answer:
        assert method == "exchange"
        self.answers.append(_Answer(arrays[0].copy()))
        return self.answers[-1]


class _Servers:
    def __init__(self, number: int) -> None:
        self.all = [_Server(each) for each in range(number)]

    def __len__(self) -> int:
        return len(self.all)


def _averaging(servers: _Servers, weights: tf.Variable, **settings: Any) -> Averaging:
    sync = Shadow.model_validate({"kind": "shadow", **settings})
    return Averaging(servers, sync, weights)  # type: ignore[arg-type]


def _until(condition: Callable[[], object]) -> None:
    given_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < given_up
        time.sleep(0.001)


def test_what_is_learned_while_an_exchange_is_away_is_kept() -> None:
    servers, weights = _Servers(2), tf.Variable([1.0, 2.0, 3.0])
    averaging = _averaging(servers, weights)
    # The thread asks for a copy when it likes; a step after that gives it one.
    _until(lambda: (averaging.after_step(), servers.all[1].answers)[1])
    sent = [float(each) for server in servers.all for each in server.answers[0].sent]
    assert sent == [1.0, 2.0, 3.0]
    for _ in range(5):  # No step waits.
        weights.assign_add([10.0, 20.0, 30.0])
        averaging.after_step()
    np.testing.assert_array_equal(weights, [51.0, 102.0, 153.0])
    servers.all[0].answers[0].give([-0.5])
    servers.all[1].answers[0].give([-1.0, -1.5])
    _until(lambda: (averaging.after_step(), float(weights[0]) != 51.0)[1])
    np.testing.assert_array_equal(weights, [50.5, 101.0, 151.5])
    assert averaging.gaps[0] >= 6
    # The next copy has what this one brought.
    _until(lambda: (averaging.after_step(), len(servers.all[1].answers) > 1)[1])
    assert [float(each) for server in servers.all for each in server.answers[1].sent] == [50.5, 101.0, 151.5]
    for server in servers.all:
        server.answers[1].give(np.zeros_like(server.answers[1].sent))
    averaging.close()


def test_in_the_step_it_exchanges_once_in_so_many_steps() -> None:
    servers, weights = _Servers(1), tf.Variable([0.0])
    averaging = _averaging(servers, weights, every_steps=3)

    def answer() -> None:
        for number in range(2):
            _until(lambda number=number: len(servers.all[0].answers) > number)  # type: ignore[misc]
            servers.all[0].answers[number].give([100.0])

    answering = threading.Thread(target=answer)
    answering.start()
    for _ in range(7):
        weights.assign_add([1.0])
        averaging.after_step()
    answering.join(60)
    assert [float(each.sent[0]) for each in servers.all[0].answers] == [3.0, 106.0]
    assert float(weights[0]) == 207.0
    assert averaging.gaps == [3, 3]
    averaging.close()


@pytest.mark.parametrize("settings", [{}, {"every_steps": 1}])
def test_when_its_server_is_gone_the_next_step_says_so(settings: dict[str, Any]) -> None:
    servers, weights = _Servers(1), tf.Variable([0.0])
    averaging = _averaging(servers, weights, **settings)

    def lose() -> None:
        _until(lambda: servers.all[0].answers)
        servers.all[0].answers[0].give(ConnectionError("gone"))

    losing = threading.Thread(target=lose)
    losing.start()
    with pytest.raises(ConnectionError, match="gone"):
        _until(averaging.after_step)
    losing.join(60)
    if not settings:
        # It stays said, and nobody waits for a thread that has ended.
        with pytest.raises(ConnectionError, match="gone"):
            averaging.after_step()
        with pytest.raises(ConnectionError, match="gone"):
            averaging.settle()
    averaging.close()


def test_settling_makes_one_more_exchange_after_the_one_under_way() -> None:
    servers, weights = _Servers(1), tf.Variable([1.0])
    averaging = _averaging(servers, weights)
    _until(lambda: (averaging.after_step(), servers.all[0].answers)[1])
    weights.assign_add([1.0])
    settling = threading.Thread(target=averaging.settle)
    settling.start()
    time.sleep(0.05)
    assert settling.is_alive()
    servers.all[0].answers[0].give([10.0])
    _until(lambda: len(servers.all[0].answers) > 1)
    assert servers.all[0].answers[1].sent.tolist() == [12.0]
    servers.all[0].answers[1].give([0.5])
    settling.join(60)
    assert float(weights[0]) == 12.5
    averaging.close()

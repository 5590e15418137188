"""Which requests get a slot, on a clock that the test moves."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sangam.components.server.admission import Admission, Ticket
from sangam.components.server.request_error import Code, RequestError

TIMEOUT_S = 30


class World:
    """An admission of one slot, whose clock stands still by itself.

    Calls take 100 s: one is expected to take 150, with the margin.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.now = 1000.0
        self.admission = Admission(max_running=1, max_waiting=8, clock=lambda: self.now)
        self._pool = pool
        for _ in range(100):
            self.leave(self.entered())

    def entered(self) -> Ticket:
        """Returns a request that runs."""
        ticket = Ticket()
        assert self.admission.enter(ticket, None)
        return ticket

    def wait(self, seconds: float | None) -> "tuple[Ticket, Future[bool]]":
        """Lets a request wait behind those that do; its deadline is so many seconds from now."""
        ticket, before = Ticket(), self.admission.num_waiting
        entered = self._pool.submit(self.admission.enter, ticket, None if seconds is None else self.now + seconds)
        end = time.monotonic() + TIMEOUT_S
        while self.admission.num_waiting == before:
            assert time.monotonic() < end
            assert not entered.done()
            time.sleep(0.001)
        return ticket, entered

    def leave(self, ticket: Ticket, *taken: Ticket) -> None:
        """Ends a call 100 s after it began."""
        self.now += 100.0 * (1 + len(taken))
        self.admission.leave(ticket, taken)


@pytest.fixture
def world() -> Iterator[World]:
    with ThreadPoolExecutor(8) as pool:
        made = World(pool)
        try:
            yield made
        finally:  # Of a test that fails.
            while made.admission.num_waiting:
                made.admission.leave(Ticket())


def _is_too_late(entered: "Future[bool]") -> bool:
    error = entered.exception(TIMEOUT_S)
    return isinstance(error, RequestError) and error.code == Code.DEADLINE_EXCEEDED


def test_a_waiting_request_is_dropped_when_its_call_would_end_too_late(world: World) -> None:
    running = world.entered()
    late, just, never = world.wait(240), world.wait(260), world.wait(None)
    world.leave(running)
    assert _is_too_late(late[1])
    assert just[1].result(TIMEOUT_S)
    world.leave(just[0])
    assert never[1].result(TIMEOUT_S)
    world.leave(never[0])
    assert world.admission.num_running == world.admission.num_waiting == 0


def test_an_idle_server_tries_what_seems_too_long(world: World) -> None:
    assert world.admission.enter(Ticket(), world.now + 1)


def test_the_longest_waiting_is_first_until_it_has_half_of_its_time_left_and_then_the_newest(world: World) -> None:
    running = world.entered()
    first, second, third = world.wait(1000), world.wait(1000), world.wait(1000)
    world.leave(running)
    assert first[1].result(TIMEOUT_S)
    world.now += 250
    world.leave(first[0])
    assert second[1].result(TIMEOUT_S)
    fourth = world.wait(1000)
    world.leave(second[0])  # The third has waited for 550 s.
    assert fourth[1].result(TIMEOUT_S)
    world.leave(fourth[0])
    assert third[1].result(TIMEOUT_S)


def test_a_call_takes_no_more_along_than_it_can_answer_in_time(world: World) -> None:
    running = world.entered()
    caller, first, second, third = world.wait(1000), world.wait(560), world.wait(1000), world.wait(1000)
    world.leave(running)
    assert caller[1].result(TIMEOUT_S)
    assert world.admission.take(caller[0]) is first[0]  # Expected to take 300 s, and 460 are left.
    assert world.admission.take(caller[0]) is second[0]  # 450
    assert world.admission.take(caller[0]) is None
    world.leave(caller[0], first[0], second[0])
    assert not first[1].result(TIMEOUT_S)
    assert not second[1].result(TIMEOUT_S)
    assert third[1].result(TIMEOUT_S)


def test_requests_of_another_kind_are_not_taken_along(world: World) -> None:
    running = world.entered()
    world.wait(None)
    assert world.admission.take(Ticket("another")) is None
    world.leave(running)

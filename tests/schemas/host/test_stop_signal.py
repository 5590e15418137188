"""Signals to stop: any number of them, at any moment."""

import signal
import threading
from collections.abc import Iterator

import pytest

from sangam.schemas.host.stop_signal import StopSignal


@pytest.fixture(autouse=True)
def _handler_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_ends_the_wait_and_stays() -> None:
    stopped = StopSignal(signal.SIGUSR1)
    assert not stopped.wait(0.001)
    signal.raise_signal(signal.SIGUSR1)
    assert stopped.wait(60)
    assert stopped.is_set()


def test_signals_that_interrupt_each_others_handlers_end_it_too() -> None:
    stopped, is_over = StopSignal(signal.SIGUSR1), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def send() -> None:
        for _ in range(20_000):
            signal.pthread_kill(main, signal.SIGUSR1)
        is_over.set()

    sender = threading.Thread(target=send)
    sender.start()
    while not is_over.is_set():
        stopped.wait(0.001)
    sender.join()
    assert stopped.is_set()

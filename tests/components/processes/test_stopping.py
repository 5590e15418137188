"""Signals become an exception in the main thread, or an end after the grace."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from sangam.components.processes.stopping import Stopped, StopSignals
from tests.paths import REPOSITORY
from tests.pipelines.processes import is_running

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def stray_signals() -> Iterator[list[int]]:
    """Fails the test on a signal that StopSignals misses; by default it would kill the process that runs the tests."""
    strays: list[int] = []
    before = {signum: signal.signal(signum, lambda number, _: strays.append(number)) for signum in SIGNALS}
    yield strays
    for signum, handler in before.items():
        signal.signal(signum, handler)
    assert strays == []


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_is_an_exception_that_runs_finally(signum: signal.Signals, code: int) -> None:
    cleaned = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signum)
            time.sleep(60)
        finally:
            cleaned.append(True)

    with pytest.raises(Stopped, match=f"stopped by {signum.name}") as caught, StopSignals() as stop, stop.raised():
        work()
    assert cleaned
    assert caught.value.exit_code == code


def test_no_handler_of_exceptions_swallows_a_stop() -> None:
    assert not issubclass(Stopped, Exception)


def test_a_second_signal_does_not_interrupt_the_cleaning() -> None:
    cleaned = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            cleaned.append(True)

    with pytest.raises(Stopped, match="SIGTERM"), StopSignals() as stop, stop.raised():
        work()
    assert cleaned


def test_a_stop_that_was_swallowed_is_raised_again() -> None:
    swallowed = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except Stopped:
            swallowed.append(True)
        time.sleep(60)

    # The second exception must not come before the first one is swallowed.
    with pytest.raises(Stopped, match="SIGTERM"), StopSignals(repeat_s=1.0) as stop, stop.raised():
        work()
    assert len(swallowed) == 1


def test_a_signal_outside_the_block_is_raised_on_entering_it() -> None:
    with StopSignals(repeat_s=0.05) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
        with pytest.raises(Stopped, match="SIGTERM"), stop.raised():
            pytest.fail("must not be entered")


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_no_signal_is_repeated_once_the_handlers_are_put_back(
    monkeypatch: pytest.MonkeyPatch, stray_signals: list[int]
) -> None:
    kill, is_repeating = os.kill, threading.Event()

    def late(pid: int, signum: int) -> None:
        is_repeating.set()
        time.sleep(0.3)
        kill(pid, signum)

    with StopSignals(repeat_s=0.05):
        monkeypatch.setattr(os, "kill", late)
        kill(os.getpid(), signal.SIGTERM)
        assert is_repeating.wait(60)
    time.sleep(0.5)
    assert stray_signals == []


def test_who_does_not_stop_within_the_grace_is_killed_with_all_it_started() -> None:
    program = (
        "import subprocess, time\nfrom sangam.components.processes.stopping import StopSignals\n"
        "with StopSignals(grace_s=0.3) as stop, stop.raised():\n"
        "    child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "    while True:\n"
        "        try:\n            print(child.pid, flush=True)\n            time.sleep(60)\n"
        "        except BaseException:\n            pass\n"
    )
    stubborn = subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert stubborn.stdout
    child = int(stubborn.stdout.readline())
    stubborn.terminate()
    assert stubborn.wait(timeout=60) == 143
    assert not is_running(child)
    stubborn.stdout.close()


def test_descendants_in_other_sessions_are_killed() -> None:
    program = (
        "import subprocess\nfrom sangam.components.processes.stopping import kill_descendants\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "print(kill_descendants(), child.wait(timeout=60), kill_descendants())\n"
    )
    # In a process of its own: whoever runs the tests has other descendants too.
    assert subprocess.check_output([sys.executable, "-c", program], cwd=REPOSITORY, text=True).split() == [
        "1",
        "-9",
        "0",
    ]

"""Which pods of a step have a try left, and which failures are final."""

from pathlib import Path
from typing import Any

import pytest

from sangam.components.kfp_entrypoint import tries
from sangam.components.kfp_entrypoint.ending import Ending, stopped
from sangam.components.kfp_entrypoint.invocation import Command
from sangam.components.kfp_entrypoint.notes import Notes
from sangam.components.kfp_entrypoint.task import Task
from sangam.components.kfp_entrypoint.tries import SURPLUS_S, is_final, note, run_tries, surplus
from sangam.components.kfp_entrypoint.uris import UriMapping
from sangam.components.processes.stopping import StopSignals
from sangam.schemas.spec.cluster import Retries

FAILED = Ending(1, "no such thing")


def task(folder: Path, pods: int = 1) -> Task:
    return Task("trainer", Command("x", ()), {}, UriMapping(folder), "run-1", "", pods, Notes(folder))


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[Ending]:
    """Endings of the coming tries, whose processes tests of the entry point start."""
    endings: list[Ending] = []

    def execute(*_: Any) -> Ending:
        return endings.pop(0)

    monkeypatch.setattr(tries, "execute", execute)
    return endings


def test_tries_are_those_of_all_pods_and_each_pod_has_one(tmp_path: Path, ended: list[Ending]) -> None:
    retries, stop = Retries(count=2, backoff_s=1, max_backoff_s=1), StopSignals()
    ended += [FAILED, stopped(15, "trainer"), FAILED, FAILED]
    assert run_tries(task(tmp_path), retries, None, stop).is_stop
    assert run_tries(task(tmp_path, 2), retries, None, stop) == FAILED
    assert len(ended) == 1
    assert run_tries(task(tmp_path, 3), retries, None, stop) == FAILED
    assert ended == []


def test_a_pod_that_comes_at_once_after_a_final_failure_tells_it_and_one_that_was_asked_for_tries(
    tmp_path: Path,
) -> None:
    retries, second = Retries(count=2), task(tmp_path, 2)
    note(task(tmp_path), FAILED, 1000.0)
    assert surplus(second, retries, 1000.0 + SURPLUS_S - 1) == FAILED
    # Each counts from the one before, and clocks of nodes differ.
    assert surplus(task(tmp_path, 3), retries, 1000.0 + SURPLUS_S - 6) == FAILED
    assert surplus(task(tmp_path, 4), retries, 1000.0 + SURPLUS_S) is None
    assert surplus(second, retries, 1000.0 + 3 * SURPLUS_S) is None
    assert surplus(task(tmp_path / "other", 2), retries, 1000.0) is None


def test_a_root_that_is_lost_meanwhile_costs_no_try_and_hides_no_failure(tmp_path: Path, ended: list[Ending]) -> None:
    (tmp_path / "tries").write_text("a file, not a folder")
    (tmp_path / "failed").write_text("a file, not a folder")
    ended += [FAILED, FAILED]
    retries = Retries(count=1, backoff_s=1, max_backoff_s=1)
    assert run_tries(task(tmp_path), retries, None, StopSignals()) == FAILED
    assert ended == []
    note(task(tmp_path), FAILED, 1000.0)


def test_a_stopped_pod_is_replaced_as_often_as_the_backend_may(tmp_path: Path) -> None:
    retries = Retries(count=1)
    assert not is_final(task(tmp_path, 1), stopped(15, "trainer"), retries)
    assert is_final(task(tmp_path, 2), stopped(15, "trainer"), retries)
    assert is_final(task(tmp_path, 1), FAILED, retries)

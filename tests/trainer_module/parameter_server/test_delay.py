"""Calls that are late by what a server's variable says."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from sangam.schemas.errors import UserError
from sangam.trainer_module.parameter_server.calls import Status
from sangam.trainer_module.parameter_server.delay import VARIABLE, delayed
from sangam.trainer_module.parameter_server.wire import Caller

CALLER = Caller(0, 0, 0)


def _answer(method: str, caller: Caller, arrays: list[Any]) -> tuple[Status, Sequence[Any]]:
    del method, caller
    return Status.DONE, arrays


@pytest.mark.parametrize(("declared", "late"), [("60", {"pull", "push"}), ("push:60", {"push"})])
def test_calls_are_late_by_the_delay(monkeypatch: pytest.MonkeyPatch, declared: str, late: set[str]) -> None:
    waits_s: list[float] = []
    monkeypatch.setattr(time, "sleep", waits_s.append)
    answer = delayed(_answer, declared)
    for method in ("pull", "push"):
        waits_s.clear()
        assert answer(method, CALLER, []) == (Status.DONE, [])
        assert waits_s == ([0.06] if method in late else [])


def test_a_delay_that_is_no_number_is_refused() -> None:
    with pytest.raises(UserError, match=VARIABLE):
        delayed(_answer, "pull:slow")

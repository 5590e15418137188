"""Delayed calls, for measurements on a machine without a slow network."""

import time
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from sangam.schemas.errors import UserError
from sangam.trainer_module.parameter_server.calls import Status
from sangam.trainer_module.parameter_server.server import Answer
from sangam.trainer_module.parameter_server.wire import Caller

VARIABLE = "SANGAM_PARAMETER_SERVER_DELAY_MS"
"""A server's environment variable: `20` delays every call by 20 ms; `exchange:20` only calls of that method."""


def delayed(answer: Answer, declared: str) -> Answer:
    """Returns what answers later; waiting blocks a connection's thread but uses no CPU.

    Args:
        answer: what answers.
        declared: value of `VARIABLE`.

    Raises:
        UserError: the delay is not a number.
    """
    only, _, milliseconds = declared.rpartition(":")
    try:
        delay_s = float(milliseconds) / 1e3
    except ValueError as error:
        raise UserError(f"{VARIABLE}: not milliseconds (got {declared!r}); use 20 or exchange:20") from error

    def late(method: str, caller: Caller, arrays: list[NDArray[Any]]) -> tuple[Status, Sequence[NDArray[Any]]]:
        if only in ("", method):
            time.sleep(delay_s)
        return answer(method, caller, arrays)

    return late

"""Exponential back-off between attempts."""

import datetime
import email.utils
import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Waits that grow after each failure.

    Attributes:
        first_s: seconds of the wait after the first failure.
        factor: ratio of each wait to the one before.
        max_s: the longest wait, even if a server asks for more.
        jitter: largest random change of a wait, as a share of it, so that clients do not all retry at once.
    """

    first_s: float
    factor: float = 2.0
    max_s: float = math.inf
    jitter: float = 0.0

    def wait_s(self, failures: int, asked_s: float | None = None) -> float:
        """Returns how long to wait.

        Args:
            failures: consecutive ones before this.
            asked_s: the wait that the server asked for, which is used.
        """
        if asked_s is not None:
            return min(asked_s, self.max_s)
        try:
            wait_s = min(self.first_s * self.factor**failures, self.max_s)
        except OverflowError:
            wait_s = self.max_s
        return wait_s * random.uniform(1 - self.jitter, 1 + self.jitter) if self.jitter else wait_s

    def waits_s(self, retries: int) -> tuple[float, ...]:
        """Returns the wait before each retry."""
        return tuple(self.wait_s(failures) for failures in range(retries))


def retry_after_s(header: str, now: datetime.datetime) -> float | None:
    """Returns the seconds of a Retry-After header, given as seconds or as a date; None for any other text."""
    if header.isdecimal():
        return float(header)
    try:
        then = email.utils.parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    return max(0.0, (then - now).total_seconds())

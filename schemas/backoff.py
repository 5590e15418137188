"""How long to wait between tries: exponential back-off."""

import datetime
import email.utils
import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Ever longer waits.

    Attributes:
        first_s: after the first failure.
        factor: each wait is so many times the one before.
        max_s: the longest wait, also where a server asks for more.
        jitter: the part of a wait that chance adds or takes away, so that clients that failed together do not come
            back together.
    """

    first_s: float
    factor: float = 2.0
    max_s: float = math.inf
    jitter: float = 0.0

    def wait_s(self, failures: int, asked_s: float | None = None) -> float:
        """Returns how long to wait.

        Args:
            failures: before this one, in a row.
            asked_s: what the server asked for; it is obeyed.
        """
        if asked_s is not None:
            return min(asked_s, self.max_s)
        try:
            wait_s = min(self.first_s * self.factor**failures, self.max_s)
        except OverflowError:
            wait_s = self.max_s
        return wait_s * random.uniform(1 - self.jitter, 1 + self.jitter) if self.jitter else wait_s

    def waits_s(self, retries: int) -> tuple[float, ...]:
        """Returns the waits before so many retries."""
        return tuple(self.wait_s(failures) for failures in range(retries))


def retry_after_s(header: str, now: datetime.datetime) -> float | None:
    """Returns what a Retry-After header asks for: seconds or a date; None where it is empty or neither."""
    if header.isdecimal():
        return float(header)
    try:
        then = email.utils.parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    return max(0.0, (then - now).total_seconds())

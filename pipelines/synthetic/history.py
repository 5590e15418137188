"""The last posts that each user watched: `recent_posts` of the logs."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sangam.pipelines.synthetic.world import Ints

MAX_RECENT = 30


@dataclass(frozen=True)
class History:
    """Distinct views, sorted by user, then newest first."""

    user: Ints
    post: Ints
    time_s: Ints


def empty_history() -> History:
    """Returns the history before the first day."""
    nothing = np.empty(0, dtype=np.int64)
    return History(nothing, nothing, nothing)


def updated(history: History, user: Ints, post: Ints, time_s: Ints) -> History:
    """Returns the history after some views: of each user the newest MAX_RECENT distinct posts."""
    user, post = np.concatenate([history.user, user]), np.concatenate([history.post, post])
    time_s = np.concatenate([history.time_s, time_s])
    latest = np.lexsort((-time_s, post, user))
    is_first = _differs(user[latest]) | _differs(post[latest])
    kept = latest[is_first]
    # The post breaks ties of time, so that the order is deterministic.
    kept = kept[np.lexsort((post[kept], -time_s[kept], user[kept]))]
    kept = kept[_position(user[kept]) < MAX_RECENT]
    return History(user[kept], post[kept], time_s[kept])


def recent(history: History, user: Ints) -> tuple[Ints, Ints]:
    """Returns the recent posts of each given user as offsets [n + 1] and values, newest first."""
    start = np.searchsorted(history.user, user, side="left")
    length = np.searchsorted(history.user, user, side="right") - start
    offsets = np.concatenate([[0], np.cumsum(length)])
    index = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - start, length)
    return offsets, history.post[index]


def _differs(values: Ints) -> npt.NDArray[np.bool_]:
    differs = np.ones(len(values), dtype=np.bool_)
    differs[1:] = values[1:] != values[:-1]
    return differs


def _position(grouped: Ints) -> Ints:
    starts = np.flatnonzero(_differs(grouped))
    lengths = np.diff(np.append(starts, len(grouped)))
    return np.arange(len(grouped)) - np.repeat(starts, lengths)

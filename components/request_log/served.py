"""A request that was answered, and what a version's settings say of its log."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.contracts.export import Description, ServedColumn
from sangam.schemas.contracts.request_log import taken
from sangam.schemas.host.splitmix64 import GAMMA, mix64
from sangam.schemas.spec.serving import RequestLog

_LOG = logging.getLogger("sangam.components.server")
_MOST_ID_CHARACTERS = 128
_STRING_BYTES = 48
"""Memory of a string beside its characters."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Plan:
    """What is logged of the requests of one version.

    Attributes:
        model: name of the ranker.
        version: number.
        settings: settings that were pushed with it.
        columns: columns that it reads, by name.
        tasks: tasks that it predicts.
        event_time: column with the time of the event, unless it reads it; empty: none.
    """

    model: str
    version: int
    settings: RequestLog
    columns: Mapping[str, ServedColumn]
    tasks: tuple[str, ...]
    event_time: str

    def chooses(self, request_id: str) -> bool:
        """Returns whether a request is in the declared share, by a hash of its id alone."""
        return is_in_share(request_id, self.settings.share)

    def places(self, request_id: str, num_candidates: int) -> NDArray[np.int64] | None:
        """Returns the places of the candidates that are logged, ascending; None: all are."""
        most = self.settings.candidates
        if most == "all" or num_candidates <= most:
            return None
        draws = mix64(np.uint64(_hash(request_id)) + np.arange(1, num_candidates + 1, dtype=np.uint64) * GAMMA)
        return np.sort(np.argsort(draws, kind="stable")[:most])

    @property
    def needs_key(self) -> bool:
        """Whether columns are hashed."""
        return "hash" in self.settings.redact.values()


@dataclass(frozen=True)
class Served:
    """An answered request.

    Attributes:
        plan: what is logged of it.
        request_id: id.
        at_s: time of the answer by the server's clock, seconds since 1970.
        delta: number of the last delta that was served; None: the version takes none.
        inputs: inputs of `rank`, or `examples`.
        num_candidates: number of rows.
        scores: prediction of each row, by task.
        position: place at which each candidate was shown, as told by the caller; None: untold.
        propensity: probability of that, likewise.
        shadow_version: version that scored it too, without answering; None: none did.
        shadow_scores: its prediction of each row, by task.
    """

    plan: Plan
    request_id: str
    at_s: float
    delta: int | None
    inputs: Arrays
    num_candidates: int
    scores: Arrays
    position: NDArray[Any] | None = None
    propensity: NDArray[Any] | None = None
    shadow_version: int | None = None
    shadow_scores: Arrays = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Approximate memory."""
        arrays = (*self.inputs.values(), *self.scores.values(), *self.shadow_scores.values())
        return sum(map(_bytes, arrays))


def plan_of(settings: RequestLog | None, described: Description | None, version: int) -> Plan | None:
    """Returns what is logged of a version's requests; None: nothing."""
    if settings is None or described is None:
        return None
    if names := taken(described.columns):
        _LOG.error(
            "version=%d is not logged: it reads %s (got columns of the log's own names); rename them in the spec",
            version,
            ", ".join(names),
        )
        return None
    event_time = described.ranker.event_time or ""
    return Plan(
        model=described.name,
        version=version,
        settings=settings,
        columns=described.columns,
        tasks=tuple(described.tasks),
        event_time="" if event_time in described.columns else event_time,
    )


def is_in_share(request_id: str, share: float) -> bool:
    """Returns whether a request is in a share, by a hash of its id alone: a smaller share is part of a larger one."""
    return _hash(request_id) < round(share * 2**64)


def is_id(text: str) -> bool:
    """Returns whether a caller's request id can be logged: 1 to 128 visible ASCII characters."""
    return 0 < len(text) <= _MOST_ID_CHARACTERS and text.isascii() and text.isprintable() and " " not in text


def _hash(request_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(request_id.encode(), digest_size=8).digest(), "big")


def _bytes(array: NDArray[Any]) -> int:
    if array.dtype.kind != "O":
        return array.nbytes
    return sum(map(len, array.ravel().tolist())) + _STRING_BYTES * array.size

"""The server's log of requests: opens it, gives each request an id, and hands over what was answered."""

import time
import uuid
from pathlib import Path
from typing import Any

from sangam.components.request_log.queue import RequestQueue
from sangam.components.request_log.served import Plan, Served, is_id
from sangam.components.server.options import LOG_STOP_S
from sangam.components.server.request_error import invalid
from sangam.components.server.session import Arrays
from sangam.components.server.shadow import Scorer
from sangam.schemas.contracts.export import RANK, SERVE
from sangam.schemas.contracts.request_log import KAFKA, POSITION_INPUT, PROPENSITY_INPUT
from sangam.schemas.errors import UserError

_SCORING_S = 2.0
_LEAST_KEY_BYTES = 16


class ServerLog:
    """The log of one server."""

    def __init__(self, queue: RequestQueue, shadow: Scorer):
        """Takes the queue, and what scores some requests before they are logged."""
        self._queue, self._shadow = queue, shadow

    def give(
        self,
        request_id: str,
        plan: Plan | None,
        signature: str,
        inputs: Arrays,
        told: Arrays,
        num_rows: int,
        scores: Arrays,
        delta: int | None,
    ) -> None:
        """Logs an answered request if it is in the share of its version; raises nothing.

        Args:
            request_id: its id; one that cannot be logged is counted.
            plan: what is logged of its version; None: nothing.
            signature: signature that was called; others than `rank` and `serving_default` are not logged.
            inputs: inputs of the model.
            told: inputs for the log alone.
            num_rows: number of candidates.
            scores: outputs of the model.
            delta: number of the last delta that was served.
        """
        if plan is None or signature not in (RANK, SERVE) or num_rows == 0:
            return
        try:
            if not plan.chooses(request_id):
                return
            if not is_id(request_id):
                self._queue.refuse("id")
            else:
                position, propensity = told.get(POSITION_INPUT), told.get(PROPENSITY_INPUT)
                now = time.time()
                served = Served(plan, request_id, now, delta, inputs, num_rows, scores, position, propensity)
                if not self._shadow.offer(served, signature):
                    self._queue.offer(served)
        except Exception:  # noqa: BLE001 The log fails no request.
            self._queue.refuse("error")

    def stop(self) -> None:
        """Writes what waits, and seals it."""
        self._shadow.stop(_SCORING_S)
        self._queue.stop(LOG_STOP_S - _SCORING_S)


def open_queue(place: str, key_file: Path | None, kafka_config: Path | None) -> RequestQueue:
    """Opens the log, and returns the queue before it.

    Args:
        place: folder, or kafka://HOST:PORT/TOPIC.
        key_file: file with the key of hashed columns.
        kafka_config: file with properties of librdkafka.

    Raises:
        UserError: the folder cannot be created, the place is no topic, or a file cannot be read.
    """
    key = _key(key_file) if key_file else b""
    # Imported here: Arrow and Kafka's client, which a server without a log need not load.
    if place.startswith(KAFKA):
        from sangam.components.request_log.topic import Topic

        return RequestQueue(Topic(place, kafka_config, key), has_key=bool(key))
    from sangam.components.request_log.folder import Folder

    return RequestQueue(Folder(Path(place), key, time.time), has_key=bool(key))


def new_id() -> str:
    """Returns an id for a request that brings none."""
    return str(uuid.uuid4())


def taken_out(arrays: dict[str, Any]) -> Arrays:
    """Removes the inputs for the log alone from those for the model, and returns them."""
    return {name: arrays.pop(name) for name in (POSITION_INPUT, PROPENSITY_INPUT) if name in arrays}


def check_told(told: Arrays, num_rows: int) -> None:
    """Refuses inputs for the log that do not have a value for each row.

    Raises:
        RequestError: with the input's name.
    """
    for name, array in told.items():
        if len(array) != num_rows:
            raise invalid(f"inputs.{name}: wrong number of values (got {len(array)}); {num_rows}, one for each row")


def _key(file: Path) -> bytes:
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        raise UserError(f"--log-key: cannot be read (got {file}: {error.strerror}); give a file with a key") from error
    if not _LEAST_KEY_BYTES <= len(key) <= 64:
        raise UserError(f"--log-key: {file}: is no key (got {len(key)} bytes); {_LEAST_KEY_BYTES} to 64 are needed")
    return key

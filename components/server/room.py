"""Bounds the memory that all requests together take: a few bytes of a message can become a hundred times as many."""

import ctypes
import threading
from typing import Any

from sangam.components.server.request_error import Code, RequestError

_LIST, _OBJECT, _VALUE, _QUOTE = 96, 240, 40, 32
"""Bytes of a parsed list and object, of a value (its place, and a number), and of half a string; measured."""
_DIMENSION, _STRING, _NUMBER = 100, 120, 56
"""Bytes of a TensorProto's parsed dimension, string and number, and of the Python objects made of them; measured."""
_WORST = 50
"""Bytes of memory for each byte of the worst message of gRPC; measured 45."""
_LARGE_BYTES = 4 * 2**20
_TRIM_AFTER_S = 0.5
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class Room:
    """Memory for requests; malloc returns it to the system after large ones."""

    def __init__(self, max_bytes: int):
        """Takes the limit of all requests together."""
        self.max_bytes = max_bytes
        self._taken = 0
        self._is_trimming = False
        self._lock = threading.Lock()

    def take(self, num_bytes: int) -> None:
        """Reserves memory; `give` must follow.

        Raises:
            RequestError: there is not enough left, or the limit is smaller.
        """
        if num_bytes > self.max_bytes:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"message: too many values (got about {num_bytes} bytes of memory for them); all requests together may "
                f"take {self.max_bytes}: send fewer rows, or raise --max-message-bytes",
                http_status=413,
            )
        with self._lock:
            taken = self._taken
            if taken + num_bytes <= self.max_bytes:
                self._taken += num_bytes
                return
        raise RequestError(
            Code.RESOURCE_EXHAUSTED,
            f"server: busy (got requests of {taken} bytes of memory, of {self.max_bytes}); try again later, or at "
            "another replica",
        )

    def give(self, num_bytes: int) -> None:
        """Ends a reservation."""
        with self._lock:
            self._taken -= num_bytes
        self.trim_after(num_bytes)

    def trim_after(self, num_bytes: int) -> None:
        """Returns freed memory to the system soon, if a request that took this much has ended."""
        with self._lock:
            is_due = num_bytes >= _LARGE_BYTES and not self._is_trimming
            self._is_trimming |= is_due
        if is_due:  # Later, when the objects are gone.
            timer = threading.Timer(_TRIM_AFTER_S, self._trim)
            timer.daemon = True
            timer.start()

    def _trim(self) -> None:
        with self._lock:
            self._is_trimming = False
        ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """Has malloc return large blocks to the system as soon as they are freed.

    By itself it raises these thresholds to 32 and 64 MiB once blocks of that size are freed. Then each thread's arena
    may keep 64 MiB at its end, where `malloc_trim` frees nothing.
    """
    malloc = ctypes.CDLL(None)
    malloc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    malloc.mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)


def json_bytes(raw: bytes) -> int:
    """Returns the most memory that the values of a JSON document take, without parsing it."""
    counts = zip((b"[", b"{", b",", b'"'), (_LIST, _OBJECT, _VALUE, _QUOTE), strict=True)
    return len(raw) + _VALUE + sum(raw.count(character) * each for character, each in counts)


def worst_message_bytes(raw: bytes) -> int:
    """Returns the most memory that a message of gRPC takes."""
    return len(raw) * _WORST


def request_bytes(request: Any, raw: bytes) -> int:
    """Returns the memory that a parsed PredictRequest takes, and its arrays will."""
    total = len(raw) + _STRING * len(request.output_filter)
    for name, proto in request.inputs.items():
        numbers = (proto.float_val, proto.double_val, proto.int_val, proto.int64_val, proto.bool_val)
        total += len(name) + 2 * proto.ByteSize() + _DIMENSION * (1 + len(proto.tensor_shape.dim))
        total += _STRING * len(proto.string_val) + _NUMBER * sum(map(len, numbers))
    return total

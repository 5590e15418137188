"""Memory of each part of a trained ranker: a row, its index slot, the dense weights.

The numbers are those of `trainer_module/embedding/row_store.py`; a test compares them with the engine.
"""

import math

from sangam.schemas.derived.groups import Group
from sangam.schemas.derived.weights import dense_weights
from sangam.schemas.spec import RankerSpec

FLOAT_BYTES = 4
KEY_BYTES = 8
"""A row's key."""
ORDER_BYTES = 18
"""Bytes of a row while its group is written: its position in the files, and the buffers of the sort."""
INDEX_BYTES_PER_SLOT = 18
"""libcuckoo: buckets of four slots, each slot 16 bytes of key and row number, a byte of the hash, a byte of use."""
INDEX_ROOM = 9 / 8
"""Slots per row that a restored index requests. A growing one is filled to 0.95; this needs more."""
INDEX_FIXED_BYTES = 13_000_000
"""Bytes of the index: its 65,536 locks and the locks of its previous size; measured."""
MIN_ROWS = 1 << 14
"""Room of an empty table; unwritten memory is not used, except in the index."""
MOST_ROWS = 2**31 - 2
"""Most rows of a group in one process: TensorFlow makes no variable of more, and its first row belongs to no id."""
COUNTER_BYTES = 16
"""Bytes of a counter: four rows of int32 in a count-min sketch."""
PROCESS_BYTES = 700_000_000
"""A rank, a parameter server or a data worker before it holds rows: TensorFlow, TFRA, Horovod or gRPC, and small freed
buffers that malloc keeps; measured: a rank 0.61 GB, a server with a few hundred rows at most 0.64 GB."""
DEVIATIONS = 6
"""A hash assigns ids to ranks, so a rank's share of a table is binomial: one rank in a billion is so many standard
deviations above the mean. Equal ids of two tables go to the same rank, so the deviations of tables add up."""


_PARTS = (
    "numbers",
    "interaction",
    "bottom",
    "experts",
    "expert_gates",
    "model",
    "towers",
    "transfers",
    "encoders",
    "events",
    "loss_balance",
)
_COUNTED_WITH = {"heads": "towers", "attentions": "transfers"}


def stored_bytes(group: Group) -> int:
    """Returns the bytes of a group's row and its key, without the index."""
    return group.width * FLOAT_BYTES + KEY_BYTES


def high_share(rows: int, ranks: int) -> float:
    """Returns the rows of a table on a rank that is `DEVIATIONS` standard deviations above its even share."""
    mean = rows / ranks
    return min(rows, mean + DEVIATIONS * math.sqrt(mean * (1 - 1 / ranks)))


def index_bytes(rows: float) -> int:
    """Returns the bytes of the index of one rank's group; its slots are a power of two."""
    slots = 1 << math.ceil(math.log2(max(rows * INDEX_ROOM, MIN_ROWS)))
    return slots * INDEX_BYTES_PER_SLOT + INDEX_FIXED_BYTES


def dense_parameters(ranker: RankerSpec) -> int:
    """Returns the number of dense weights."""
    return sum(dense_parts(ranker).values())


def dense_parts(ranker: RankerSpec) -> dict[str, int]:
    """Returns the number of dense weights by part of the model, from the features to the tasks."""
    parts = {part: 0 for part in _PARTS}
    for weight in dense_weights(ranker):
        part = weight.name.split("/")[2 if weight.name.startswith("levels/") else 0]
        parts[_COUNTED_WITH.get(part, part)] += math.prod(weight.shape)
    return {part: number for part, number in parts.items() if number}

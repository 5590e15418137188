"""What each part of a trained ranker takes in memory: a row, its place in the index, the dense weights.

The engine's own numbers (`trainer_module/embedding/row_store.py`); a test compares them with the engine.
"""

import math

from schemas.derived.groups import Group
from schemas.derived.weights import dense_weights
from schemas.spec import RankerSpec

FLOAT_BYTES = 4
KEY_BYTES = 8
"""A row's key."""
ORDER_BYTES = 18
"""Of a row while its group is written: its place in the files, and what sorting takes."""
INDEX_BYTES_PER_SLOT = 18
"""libcuckoo: buckets of four slots, each slot 16 bytes of key and row number, a byte of the hash, a byte of use."""
INDEX_ROOM = 9 / 8
"""Slots that a restored index asks for, per row. A growing one is filled to 0.95; this is the larger of both."""
INDEX_FIXED_BYTES = 13_000_000
"""Its 65,536 locks and their predecessors; measured."""
MIN_ROWS = 1 << 14
"""Room of an empty table; what is not written is not taken, except in the index."""
COUNTER_BYTES = 16
"""Four rows of int32 in a count-min sketch."""
PROCESS_BYTES = 700_000_000
"""A rank or a data worker before it holds rows: TensorFlow, TFRA and Horovod loaded, and what malloc keeps of small
buffers that were freed; measured."""
DEVIATIONS = 6
"""Ids go to ranks by a mixed hash, so a rank's share of a table is binomial: one rank in a billion is so many standard
deviations over the mean. Ids of the same text in two tables go to the same rank: shares of tables are added up so."""


_PARTS = ("interaction", "bottom", "experts", "expert_gates", "towers", "transfers", "encoders", "loss_balance")
_COUNTED_WITH = {"heads": "towers", "attentions": "transfers", "positions": "encoders"}


def stored_bytes(group: Group) -> int:
    """Returns what a row of a group and its key take without the index."""
    return group.width * FLOAT_BYTES + KEY_BYTES


def high_share(rows: int, ranks: int) -> float:
    """Returns the rows of a table on a rank that got `DEVIATIONS` standard deviations more than its even share."""
    mean = rows / ranks
    return min(rows, mean + DEVIATIONS * math.sqrt(mean * (1 - 1 / ranks)))


def index_bytes(rows: float) -> int:
    """Returns what the index of one rank's group takes for so many rows: the slots are a power of two."""
    slots = 1 << math.ceil(math.log2(max(rows * INDEX_ROOM, MIN_ROWS)))
    return slots * INDEX_BYTES_PER_SLOT + INDEX_FIXED_BYTES


def dense_parameters(ranker: RankerSpec) -> int:
    """Returns the number of dense weights."""
    return sum(dense_parts(ranker).values())


def dense_parts(ranker: RankerSpec) -> dict[str, int]:
    """Returns the number of dense weights by what they belong to, from the features to the tasks."""
    parts = {part: 0 for part in _PARTS}
    for weight in dense_weights(ranker):
        place = weight.name.split("/")[2 if weight.name.startswith("levels/") else 0]
        parts[_COUNTED_WITH.get(place, place)] += math.prod(weight.shape)
    return {part: number for part, number in parts.items() if number}

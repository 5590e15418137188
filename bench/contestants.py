"""Who takes part in the comparison. Plain data, known to the contest and to its processes."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["sangam", "tfra_one_table", "tfra_table_per_feature", "keras_fixed_table"]


@dataclass(frozen=True)
class Contestant:
    """A way to train the workload.

    Attributes:
        label: in the printed table.
        kind: what it is made of.
        bfloat16: of the dense part; all weights and optimizers are float32.
        shares_memory: ranks send their messages through memory, not by Horovod.
        rows: of the table: room made beforehand for TFRA, all there ever are for Keras.
        most_repeats: how often it is run at most, where its ratio decides nothing.
        most_batches: how many batches it is given at most, where a step takes long.
    """

    label: str
    kind: Kind
    bfloat16: bool = False
    shares_memory: bool = False
    rows: int = 0
    most_repeats: int = 99
    most_batches: int = 99


CONTESTANTS = {
    "sangam": Contestant("Sangam, float32", "sangam"),
    "sangam_bf16": Contestant("Sangam, dense part in bfloat16", "sangam", True),
    "sangam_shm": Contestant("Sangam, float32, shared memory", "sangam", shares_memory=True),
    "tfra": Contestant("TFRA, all features in one table, float32", "tfra_one_table", rows=1 << 21),
    "tfra_bf16": Contestant(
        "TFRA, all features in one table, dense part in bfloat16", "tfra_one_table", True, rows=1 << 21, most_repeats=1
    ),
    "tfra_tables": Contestant("TFRA, a table for each feature, float32", "tfra_table_per_feature", rows=1 << 21),
    "keras_1m": Contestant(
        "Keras, fixed table of 1 M rows, float32", "keras_fixed_table", rows=1_000_000, most_repeats=1
    ),
    "keras_10m": Contestant(
        "Keras, fixed table of 10 M rows, float32", "keras_fixed_table", rows=10_000_000, most_repeats=1, most_batches=8
    ),
}

"""The contestants: plain data of the contest and of its processes."""

from dataclasses import dataclass
from typing import Literal

from bench.dimensions import TOTAL_IDS
from sangam.schemas.spec.sync import Transport

Kind = Literal[
    "sangam", "tfra_one_table", "tfra_table_per_feature", "keras_adam", "keras_adagrad", "torch_ddp", "torchrec"
]
Precision = Literal["float32", "bfloat16", "auto"]


@dataclass(frozen=True)
class Contestant:
    """A way to train the workload.

    Attributes:
        label: name in the printed table.
        kind: library, and layout of its tables.
        precision: precision of the dense part; weights and optimizers are float32.
        transport: how several ranks exchange messages.
        rows: initial capacity of TFRA's tables; fixed size of Keras' table.
        most_repeats: bound of its repeats.
        most_batches: bound of the batches of a pass.
        rowwise: whether row-wise Adagrad updates the rows, not Adam.
        staleness: bound of a parameter server; None: rows are on the ranks.
        is_plain: argument of `workload.ranker`.
    """

    label: str
    kind: Kind
    precision: Precision = "float32"
    transport: Transport = "horovod"
    rows: int = 0
    most_repeats: int = 99
    most_batches: int = 999
    rowwise: bool = False
    staleness: int | None = None
    is_plain: bool = True

    @property
    def is_in_torch(self) -> bool:
        """Whether it runs in the environment of `make bench-peers`."""
        return self.kind in ("torch_ddp", "torchrec")

    @property
    def is_peer(self) -> bool:
        """Whether it is a rival."""
        return self.kind != "sangam"

    def training(self) -> dict[str, object]:
        """Returns the fields of `training` that differ from the workload's."""
        fields: dict[str, object] = {"dense_precision": self.precision}
        if self.rowwise:
            fields["embedding_optimizer"] = {"kind": "rowwise_adagrad", "learning_rate": 0.01}
        if self.staleness is not None:
            fields["sync"] = {"kind": "stale", "staleness": self.staleness}
        return fields


CONTESTANTS = {
    "sangam": Contestant("Sangam, float32", "sangam", transport="shared_memory"),
    "sangam_bf16": Contestant("Sangam, dense part in bfloat16", "sangam", "bfloat16", transport="shared_memory"),
    "sangam_auto": Contestant("Sangam, precision by `auto`", "sangam", "auto", transport="shared_memory"),
    "sangam_horovod": Contestant("Sangam over Horovod, float32", "sangam"),
    "sangam_tcp": Contestant("Sangam over TCP, float32", "sangam", transport="tcp"),
    "tfra": Contestant("TFRA, all features in one table, float32", "tfra_one_table", rows=1 << 21),
    "tfra_bf16": Contestant(
        "TFRA, all features in one table, dense part in bfloat16",
        "tfra_one_table",
        "bfloat16",
        rows=1 << 21,
        most_repeats=1,
    ),
    "tfra_tables": Contestant("TFRA, a table for each feature, float32", "tfra_table_per_feature", rows=1 << 21),
    "keras": Contestant("TensorFlow, Keras' Embedding, Adam, float32", "keras_adam", rows=TOTAL_IDS, most_batches=2),
    "keras_adagrad": Contestant("TensorFlow, Keras' Embedding under Adagrad, float32", "keras_adagrad", rows=TOTAL_IDS),
    "sangam_rowwise": Contestant(
        "Sangam, row-wise Adagrad, float32", "sangam", transport="shared_memory", rowwise=True
    ),
    "sangam_rowwise_bf16": Contestant(
        "Sangam, row-wise Adagrad, bfloat16", "sangam", "bfloat16", transport="shared_memory", rowwise=True
    ),
    "sangam_stale": Contestant("Sangam, `stale` 4 and a server, float32", "sangam", staleness=4),
    "sangam_defaults": Contestant(
        "Sangam, numbers and average by default, float32", "sangam", is_plain=False, most_repeats=1
    ),
    "torch": Contestant("PyTorch, sparse Adam, DDP, float32", "torch_ddp"),
    "torch_bf16": Contestant("PyTorch, sparse Adam, DDP, bfloat16", "torch_ddp", "bfloat16"),
    "torchrec": Contestant("TorchRec, row-wise Adagrad, float32", "torchrec"),
    "torchrec_bf16": Contestant("TorchRec, row-wise Adagrad, bfloat16", "torchrec", "bfloat16"),
}

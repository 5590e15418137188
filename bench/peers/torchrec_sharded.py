"""TorchRec: a table for each feature, table by table on the ranks, updated by fbgemm's fused kernels in backward.

Row-wise Adagrad: on CPU the kernels have no Adam. Ids are rows of dense tables, with no hash table in between. The
pipeline sends the ids of the next batch while this one computes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torchrec.distributed import DistributedModelParallel, ShardingEnv
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, table_wise
from torchrec.distributed.train_pipeline import TrainPipelineSparseDist
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor
from torchrec.streamable import Pipelineable

from bench.dimensions import DIM, cardinalities
from bench.peers.torch_model import Mmoe, loss_of

_LEARNING_RATE, _ROW_LEARNING_RATE = 0.001, 0.01
_FEATURES = [f"id_{n:02}" for n in range(len(cardinalities()))]


@dataclass
class _Batch(Pipelineable):
    ids: KeyedJaggedTensor
    floats: Tensor
    labels: Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> "_Batch":
        """Returns itself: it is where it has to be."""
        del device, non_blocking
        return self

    def record_stream(self, stream: Any) -> None:
        """Does nothing: a processor has no streams."""

    def pin_memory(self) -> "_Batch":
        """Returns itself."""
        return self


class _Ranker(nn.Module):
    def __init__(self, *, bfloat16: bool) -> None:
        super().__init__()
        tables = [
            EmbeddingBagConfig(
                name=f"table_{feature}",
                embedding_dim=DIM,
                num_embeddings=count,
                feature_names=[feature],
                pooling=PoolingType.SUM,
                weight_init_min=-0.05,
                weight_init_max=0.05,
            )
            for feature, count in zip(_FEATURES, cardinalities(), strict=True)
        ]
        self.tables = EmbeddingBagCollection(tables=tables, device=torch.device("meta"))
        self.dense, self._bfloat16 = Mmoe(), bfloat16

    def forward(self, batch: _Batch) -> tuple[Tensor, Tensor]:
        """Returns the loss, and again, as the pipeline wants it."""
        embeddings = self.tables(batch.ids).values()
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bfloat16):
            logits_BT = self.dense(batch.floats, embeddings)
        loss = loss_of(logits_BT, batch.labels)
        return loss, loss.detach()


def step_of(batches: Iterator[tuple[Tensor, Tensor, Tensor]], *, bfloat16: bool) -> Callable[[], float]:
    """Returns a training step over the batches."""
    model = _Ranker(bfloat16=bfloat16)
    apply_optimizer_in_backward(RowWiseAdagrad, model.tables.parameters(), {"lr": _ROW_LEARNING_RATE, "eps": 1e-8})
    ranks, cpu = distributed.get_world_size(), torch.device("cpu")
    placed = {
        f"table_{feature}": table_wise(rank=n % ranks, compute_kernel="fused") for n, feature in enumerate(_FEATURES)
    }
    sharder: Any = EmbeddingBagCollectionSharder()
    plan = construct_module_sharding_plan(
        model.tables, placed, sharder=sharder, local_size=ranks, world_size=ranks, device_type="cpu"
    )
    trained = DistributedModelParallel(
        model,
        env=ShardingEnv.from_process_group(distributed.group.WORLD),
        device=cpu,
        plan=ShardingPlan({"tables": plan}),
        sharders=[sharder],
    )
    optimizer = torch.optim.Adam(model.dense.parameters(), _LEARNING_RATE, fused=True)
    pipeline = TrainPipelineSparseDist(trained, optimizer, cpu, execute_all_batches=True)
    source = (_Batch(_keyed(ids_BF), floats, labels_BT) for ids_BF, floats, labels_BT in batches)
    return lambda: float(pipeline.progress(source))


def _keyed(ids_BF: Tensor) -> KeyedJaggedTensor:
    """Returns ids as TorchRec takes them: feature by feature, one for each example."""
    lengths = torch.ones(ids_BF.numel(), dtype=torch.int32)
    return KeyedJaggedTensor(_FEATURES, ids_BF.t().reshape(-1), lengths=lengths, stride=len(ids_BF))

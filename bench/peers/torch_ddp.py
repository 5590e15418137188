"""PyTorch by itself: one table of sparse gradients under sparse Adam, DistributedDataParallel over gloo."""

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from bench.dimensions import DIM, cardinalities
from bench.peers.torch_model import Mmoe, loss_of

_LEARNING_RATE = 0.001


class _Ranker(nn.Module):
    """All features in one table, one after the other: one lookup, one gradient, one sparse all-reduce."""

    def __init__(self) -> None:
        super().__init__()
        counts = cardinalities()
        self.table = nn.Embedding(sum(counts), DIM, sparse=True, _weight=torch.empty(sum(counts), DIM))
        nn.init.uniform_(self.table.weight, -0.05, 0.05)
        first = torch.tensor([0, *itertools.accumulate(counts)][:-1])
        self.register_buffer("first", first, persistent=False)
        self.dense = Mmoe()

    def forward(self, ids_BF: Tensor, floats: Tensor) -> Tensor:
        """Returns logits [batch, tasks]."""
        return self.dense(floats, self.table(ids_BF + self.first).flatten(1))


def step_of(
    batches: Iterator[tuple[Tensor, Tensor, Tensor]], *, bfloat16: bool, device: str = "cpu"
) -> Callable[[], float]:
    """Returns a training step over the batches. Every rank has all rows."""
    model = _Ranker().to(device)
    tables = [model.table.weight]
    dense = list(model.dense.parameters())
    # Gradients are averaged over the ranks: those of rows as (ids, values) of every rank.
    options = {"broadcast_buffers": False, "gradient_as_bucket_view": True, "static_graph": True}
    is_alone = not distributed.is_initialized() or distributed.get_world_size() == 1
    trained = model if is_alone else DistributedDataParallel(model, **options)
    optimizers = [torch.optim.SparseAdam(tables, _LEARNING_RATE), torch.optim.Adam(dense, _LEARNING_RATE, fused=True)]

    def step() -> float:
        ids_BF, floats, labels_BT = (part.to(device, non_blocking=True) for part in next(batches))
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            logits_BT = trained(ids_BF, floats)
        loss = loss_of(logits_BT, labels_BT)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return float(loss)

    return step

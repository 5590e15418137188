"""The ranker of `bench.workload.ranker` in PyTorch, without its tables."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.dimensions import DIM, EXPERT_UNITS, NUM_EXPERTS, NUM_FLOATS, NUM_IDS, NUM_TASKS, TOWER_UNITS, dense_weights

# Shape suffixes: B batch, F id features, D dimension, E experts, H width of an expert's output, T tasks.


class Mmoe(nn.Module):
    """The dense part. The first layers of the experts are one product, and so are the gates, as in the engine."""

    def __init__(self) -> None:
        super().__init__()
        inputs, (first, second), (tower,) = NUM_FLOATS + NUM_IDS * DIM, EXPERT_UNITS, TOWER_UNITS
        self.first = nn.Linear(inputs, NUM_EXPERTS * first)
        self.second = nn.ModuleList(nn.Linear(first, second) for _ in range(NUM_EXPERTS))
        self.gates = nn.Linear(inputs, NUM_TASKS * NUM_EXPERTS)
        self.towers = nn.ModuleList(nn.Linear(second, tower) for _ in range(NUM_TASKS))
        self.heads = nn.ModuleList(nn.Linear(tower, 1) for _ in range(NUM_TASKS))
        for weight in self.parameters():  # As Keras and the engine begin.
            nn.init.xavier_uniform_(weight) if weight.dim() > 1 else nn.init.zeros_(weight)
        # Sums, activations and gates become few loops: 105 ms and not 111, in bfloat16 28 and not 40.
        self.compile(dynamic=False)
        assert sum(weight.numel() for weight in self.parameters()) == dense_weights()

    def forward(self, floats: Tensor, embeddings: Tensor) -> Tensor:
        """Returns logits [batch, tasks]; `embeddings` are [batch, features * dim]."""
        x = torch.cat([floats, embeddings], dim=1)
        inputs = functional.relu(self.first(x)).chunk(NUM_EXPERTS, dim=1)
        experts = [functional.relu(layer(part)) for layer, part in zip(self.second, inputs, strict=True)]
        gates_BTE = functional.softmax(self.gates(x).view(-1, NUM_TASKS, NUM_EXPERTS), dim=2).to(experts[0].dtype)
        logits = []
        for task, (tower, head) in enumerate(zip(self.towers, self.heads, strict=True)):
            # Term by term, which the compiler makes one loop of: than with a product for each example the dense part
            # takes 105 ms and not 136, in bfloat16 28 and not 57.
            mixed_BH = sum(gates_BTE[:, task, n : n + 1] * expert_BH for n, expert_BH in enumerate(experts))
            logits.append(head(functional.relu(tower(mixed_BH))))
        return torch.cat(logits, dim=1).float()


def loss_of(logits_BT: Tensor, labels_BT: Tensor) -> Tensor:
    """Returns the mean over the examples of the sum over the tasks."""
    return functional.binary_cross_entropy_with_logits(logits_BT, labels_BT, reduction="none").sum(dim=1).mean()

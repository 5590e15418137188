"""Multi-gate mixture of experts.

Reference: Ma et al.: Modeling task relationships in multi-task learning with multi-gate mixture-of-experts, KDD 2018.
"""

from collections.abc import Sequence
from dataclasses import replace

import tensorflow as tf

from schemas.models import Mmoe
from trainer_module.dense.layers import Dense, Mlp, ParallelMlps
from trainer_module.dense.weights import Blocks, Layer, Weight, Weights

# Shape suffixes: B batch, I inputs, E experts, H width of an expert's output, T tasks.


class MmoeModel:
    """y_k = h_k(f_k(x)), f_k(x) = sum_e softmax(W_k x)_e f_e(x): equations 5 to 7 of the paper."""

    def __init__(self, declared: Mmoe, *, inputs: Blocks, tasks: Sequence[str]):
        self._num_experts, self._num_tasks = declared.num_experts, len(tasks)
        width = sum(size for _, size in inputs)
        self._experts = ParallelMlps("experts", width, declared.expert_units, declared.num_experts)
        # The gates of all tasks are one product.
        self._expert_gates = Dense("expert_gates", width, len(tasks) * declared.num_experts, relu=False)
        self._towers = [Mlp(f"towers/{task}", self._experts.outputs, declared.tower_units) for task in tasks]
        self._heads = [Dense(f"heads/{task}", declared.tower_units[-1], 1, relu=False) for task in tasks]
        layers: tuple[Layer, ...] = (self._experts, self._expert_gates, *self._towers, *self._heads)
        gates = tuple((task, declared.num_experts) for task in tasks)
        blocks: dict[str, tuple[Blocks | None, ...]] = {
            "experts/first/w": (inputs, None),
            "expert_gates/w": (inputs, gates),
            "expert_gates/b": (gates,),
        }
        self.weights: tuple[Weight, ...] = tuple(
            replace(weight, blocks=blocks.get(weight.name, ())) for layer in layers for weight in layer.weights
        )

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns logits [batch, tasks]."""
        experts_BEH = self._experts(weights, x_BI)
        gates_BTE = tf.nn.softmax(
            tf.reshape(self._expert_gates(weights, x_BI), [-1, self._num_tasks, self._num_experts])
        )
        mixed_BTH = tf.matmul(gates_BTE, experts_BEH)
        logits = [
            head(weights, tower(weights, mixed_BH))
            for tower, head, mixed_BH in zip(self._towers, self._heads, tf.unstack(mixed_BTH, axis=1), strict=True)
        ]
        return tf.concat(logits, axis=1)

"""Progressive layered extraction; with one level it is customized gate control (CGC).

Reference: Tang et al.: Progressive layered extraction (PLE): a novel multi-task learning model for personalized
recommendations, RecSys 2020, section 4.
"""

from collections.abc import Sequence

import tensorflow as tf

from sangam.schemas.parts.weight import Blocks, width_of
from sangam.schemas.spec.models import SHARED, Ple
from sangam.trainer_module.dense.layers import Dense, ParallelMlps, Towers, mixtures
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.models.ranking_model import NoAuxiliary

# Shape suffixes: B batch, I inputs, E experts, H width of an expert's output.


class PleModel(NoAuxiliary):
    """y_k = t_k(g_k) with g_k of the last level; every other level's g_k is the input of the next level in place of x.

    In a level, g_k = sum_e softmax(W_k g'_k)_e E_e over the task's own experts and the shared ones, where g'_k is the
    task's of the level before. The shared experts have a gate over all experts of the level, except in the last
    level, where nothing reads it.
    """

    def __init__(self, spec: Ple, tasks: Sequence[str]):
        self._num_tasks = len(tasks)
        self._levels = [
            _NextLevel(spec, tasks, level) if level else _FirstLevel(spec, tasks) for level in range(spec.num_levels)
        ]
        self._towers = Towers(tasks, len(spec.tower_units), dropout=spec.dropout)
        self.shared = self._levels[-1].shared

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        seen = [x_BI] * (self._num_tasks + 1)
        for level in self._levels:
            seen = level(weights, seen, noise)
        return self._towers(weights, seen, noise)


class _FirstLevel:
    """All experts and gates read x: one product for the experts' first layers, one for the gates."""

    def __init__(self, spec: Ple, tasks: Sequence[str]):
        name, experts = "levels/0", spec.experts(tasks)
        networks = [f"{group}/{number}" for group, count in experts.items() for number in range(count)]
        self._group_of = [network.rsplit("/", 1)[0] for network in networks]
        self._experts = ParallelMlps(f"{name}/experts", len(spec.expert_units), networks, dropout=spec.dropout)
        self._choices = spec.choices(tasks, 0)
        self._expert_gates = Dense(f"{name}/expert_gates", relu=False)
        shared = [last for network, last in self._experts.last.items() if network.startswith(f"{SHARED}/")]
        self.shared = tuple(dict.fromkeys(shared))

    def __call__(self, weights: Weights, seen: Sequence[Input], noise: Noise | None) -> list[tf.Tensor]:
        """Returns each gate's mixture: [batch, width of an expert's output]."""
        [x_BI, *_] = seen
        outputs: dict[str, list[tf.Tensor]] = {}
        experts, gates_BO = self._experts.with_gates(weights, x_BI, self._expert_gates, noise)
        for group, output_BH in zip(self._group_of, experts, strict=True):
            outputs.setdefault(group, []).append(output_BH)
        sizes = [width_of(chosen) for chosen in self._choices.values()]
        gates = tf.split(gates_BO, sizes, axis=1)
        return _mixed(outputs, self._choices, gates)


class _NextLevel:
    """Each group's experts and gate read the mixture of the group's gate of the level before."""

    def __init__(self, spec: Ple, tasks: Sequence[str], level: int):
        name, num_layers = f"levels/{level}", len(spec.expert_units)
        self._experts = {
            group: ParallelMlps(f"{name}/experts/{group}", num_layers, count, dropout=spec.dropout)
            for group, count in spec.experts(tasks).items()
        }
        self._choices = spec.choices(tasks, level)
        self._expert_gates = {group: Dense(f"{name}/expert_gates/{group}", relu=False) for group in self._choices}
        self.shared = tuple(dict.fromkeys(self._experts[SHARED].last.values()))

    def __call__(self, weights: Weights, seen: Sequence[Input], noise: Noise | None) -> list[tf.Tensor]:
        """See `_FirstLevel`."""
        outputs, gates = {}, []
        for (group, experts), seen_BH in zip(self._experts.items(), seen, strict=True):
            if group in self._expert_gates:
                outputs[group], gates_BE = experts.with_gates(weights, seen_BH, self._expert_gates[group], noise)
                gates.append(gates_BE)
            else:  # The shared experts of the last level.
                outputs[group] = experts(weights, seen_BH, noise)
        return _mixed(outputs, self._choices, gates)


def _mixed(
    outputs: dict[str, list[tf.Tensor]], choices: dict[str, Blocks], gates: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    mixed = []
    for chosen, gates_BE in zip(choices.values(), gates, strict=True):
        experts = [output_BH for group, _ in chosen for output_BH in outputs[group]]
        mixed += mixtures(tf.nn.softmax(gates_BE)[:, None], experts)
    return mixed

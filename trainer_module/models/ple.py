"""Progressive layered extraction; with one level it is customized gate control (CGC).

Reference: Tang et al.: Progressive layered extraction (PLE): a novel multi-task learning model for personalized
recommendations, RecSys 2020, section 4.
"""

from collections.abc import Sequence

import tensorflow as tf

from schemas.spec.models import Ple
from trainer_module.dense.layers import Dense, ParallelMlps, Towers, mixtures
from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import Axis, Blocks, Layer, Weights, width_of
from trainer_module.models.ranking_model import NoAuxiliary

# Shape suffixes: B batch, I inputs, E experts, H width of an expert's output.
# A group of experts is a task's, `tasks/<task>`, or `shared`, which comes last.

_SHARED = "shared"


class PleModel(NoAuxiliary):
    """y_k = t_k(g_k) with g_k of the last level; every other level's g_k is the input of the next level in place of x.

    In a level, g_k = sum_e softmax(W_k g'_k)_e E_e over the task's own experts and the shared ones, where g'_k is the
    task's of the level before. The shared experts have a gate over all experts of the level, except in the last
    level, where nothing reads it.
    """

    def __init__(self, spec: Ple, *, inputs: Blocks, tasks: Sequence[str]):
        experts = {f"tasks/{task}": spec.task_experts for task in tasks} | {_SHARED: spec.shared_experts}
        self._num_tasks, width = len(tasks), spec.expert_units[-1]
        self._levels: list[_FirstLevel | _NextLevel] = []
        for number in range(spec.num_levels):
            name, is_last = f"levels/{number}", number == spec.num_levels - 1
            self._levels.append(
                _NextLevel(name, width, spec, experts, is_last)
                if number
                else _FirstLevel(name, inputs, spec, experts, is_last)
            )
        self._towers = Towers(tasks, width, spec.tower_units, dropout=spec.dropout, members=spec.members)
        of_levels = [weight for level in self._levels for weight in level.weights]
        self.weights = (*of_levels, *self._towers.weights)
        self.shared = self._levels[-1].shared

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        seen = [x_BI] * (self._num_tasks + 1)
        for level in self._levels:
            seen = level(weights, seen, noise)
        return self._towers(weights, seen, noise)


def _choices(experts: dict[str, int], is_last: bool) -> dict[str, Blocks]:
    """Returns the groups whose experts each gate mixes, and how many these have, in turn."""
    shared = (_SHARED, experts[_SHARED])
    choices: dict[str, Blocks] = {
        group: ((group, number), shared) for group, number in experts.items() if group != _SHARED
    }
    return choices if is_last else choices | {_SHARED: tuple(experts.items())}


class _FirstLevel:
    """All experts and gates read x: one product for the experts' first layers, one for the gates."""

    def __init__(self, name: str, inputs: Blocks, spec: Ple, experts: dict[str, int], is_last: bool):
        networks = [f"{group}/{number}" for group, count in experts.items() for number in range(count)]
        self._group_of = [network.rsplit("/", 1)[0] for network in networks]
        self._experts = ParallelMlps(
            f"{name}/experts", inputs, spec.expert_units, networks, dropout=spec.dropout, members=spec.members
        )
        self._choices = _choices(experts, is_last)
        gates: Axis = tuple(
            (f"{group} of {chosen}", size) for group, blocks in self._choices.items() for chosen, size in blocks
        )
        self._expert_gates = Dense(f"{name}/expert_gates", inputs, gates, relu=False, members=spec.members)
        self.weights = (*self._experts.weights, *self._expert_gates.weights)
        shared = [last for network, last in self._experts.last.items() if network.startswith(f"{_SHARED}/")]
        self.shared = tuple(dict.fromkeys(shared))

    def __call__(self, weights: Weights, seen: Sequence[tf.Tensor], noise: Noise | None) -> list[tf.Tensor]:
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

    def __init__(self, name: str, inputs: int, spec: Ple, experts: dict[str, int], is_last: bool):
        units, dropout, members = spec.expert_units, spec.dropout, spec.members
        self._experts = {
            group: ParallelMlps(f"{name}/experts/{group}", inputs, units, count, dropout=dropout, members=members)
            for group, count in experts.items()
        }
        self._choices = _choices(experts, is_last)
        self._expert_gates = [
            Dense(f"{name}/expert_gates/{group}", inputs, chosen, relu=False, members=members)
            for group, chosen in self._choices.items()
        ]
        layers: list[Layer] = [*self._experts.values(), *self._expert_gates]
        self.weights = tuple(weight for layer in layers for weight in layer.weights)
        self.shared = tuple(dict.fromkeys(self._experts[_SHARED].last.values()))

    def __call__(self, weights: Weights, seen: Sequence[tf.Tensor], noise: Noise | None) -> list[tf.Tensor]:
        """See `_FirstLevel`."""
        outputs = {
            group: experts(weights, seen_BH, noise)
            for (group, experts), seen_BH in zip(self._experts.items(), seen, strict=True)
        }
        # The last level has one gate fewer.
        gates = [gate(weights, seen_BH) for gate, seen_BH in zip(self._expert_gates, seen, strict=False)]
        return _mixed(outputs, self._choices, gates)


def _mixed(
    outputs: dict[str, list[tf.Tensor]], choices: dict[str, Blocks], gates: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    mixed = []
    for chosen, gates_BE in zip(choices.values(), gates, strict=True):
        experts = [output_BH for group, _ in chosen for output_BH in outputs[group]]
        mixed += mixtures(tf.nn.softmax(gates_BE)[:, None], experts)
    return mixed

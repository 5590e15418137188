"""Architectures: interactions of features, and layers that tasks share."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts import roles
from sangam.schemas.parts.base import Name, NonNegativeFloat, PositiveInt, Units
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.kinds import AnyKind
from sangam.schemas.parts.weight import Axis, Blocks, Weight, dense, heads, mlp, side_by_side, towers, weight


class DcnV2(roles.Interaction):
    """Deep & cross network v2 (Wang et al., WWW 2021): x_{l+1} = x_0 * (W_l x_l + b_l) + x_l, equation 1."""

    kind: Literal["dcn_v2"]
    num_layers: PositiveInt = 2
    """Number of cross layers."""
    rank: PositiveInt | None = None
    """Width r of W = U V^T, equation 2. Left out: W is full."""
    num_experts: PositiveInt = 1
    """Number of low-rank matrices per layer, mixed by a gate, equations 3 and 4; more than one needs `rank`."""
    deep_units: Units | None = None
    """Layer widths of a deep part in parallel to the crosses; the task heads see both. Left out: no deep part."""

    def weights(self, inputs: ModelInputs) -> Iterator[Weight]:
        """See `Interaction`."""
        for number in range(self.num_layers):
            yield from self._cross(f"cross/{number}", inputs.blocks)
        if self.deep_units:
            yield from mlp(_DEEP, inputs.blocks, self.deep_units)

    def outputs(self, inputs: ModelInputs) -> Blocks:
        """See `Interaction`."""
        return (*inputs.blocks, (f"interaction/{_DEEP}", self.deep_units[-1])) if self.deep_units else inputs.blocks

    def _cross(self, name: str, inputs: Blocks) -> Iterator[Weight]:
        rank, experts = self.rank, self.num_experts
        if rank is None:
            yield from dense(name, inputs, inputs)
        elif experts == 1:
            yield weight(f"{name}/v", inputs, rank)
            yield weight(f"{name}/u", rank, inputs)
            yield weight(f"{name}/b", inputs, start="zeros")
        else:
            yield weight(f"{name}/v", inputs, experts * rank, columns=experts)
            yield weight(f"{name}/c", experts, rank, rank)
            yield weight(f"{name}/u", experts, rank, inputs)
            yield weight(f"{name}/b", inputs, start="zeros")
            yield from dense(f"{name}/expert_gate", inputs, experts)


_DEEP, _BOTTOM = "deep", "bottom"

MOST_PAIRED_VECTORS = 256
"""Most vectors of DLRM, with 32,640 pairs; a step with twice as many vectors takes six times as long."""


class Dlrm(roles.Interaction):
    """Dot products of all pairs of embeddings (Naumov et al.: Deep learning recommendation model, 2019), with a
    vector of the numbers. All tables of features have one dimension."""

    kind: Literal["dlrm"]
    bottom_units: tuple[PositiveInt, ...] = (64,)
    """Layer widths of the MLP over the numbers; a last layer with the embeddings' dimension follows."""

    def weights(self, inputs: ModelInputs) -> Iterator[Weight]:
        """See `Interaction`."""
        if not inputs.floats:
            return
        before: Axis = self.bottom_units[-1] if self.bottom_units else inputs.floats
        yield from mlp(_BOTTOM, inputs.floats, self.bottom_units)
        yield from dense(f"{_BOTTOM}/last", before, inputs.embeddings[0][1])

    def outputs(self, inputs: ModelInputs) -> Blocks:
        """See `Interaction`: the MLP's vector, then a dot product of each pair."""
        bottom = f"interaction/{_BOTTOM}"
        names = [*([bottom] if inputs.floats else []), *(name for name, _ in inputs.embeddings)]
        pairs = tuple((f"{names[i]} {names[j]}", 1) for i in range(len(names)) for j in range(i))
        return ((bottom, inputs.embeddings[0][1]), *pairs) if inputs.floats else pairs


class _Model(roles.Architecture):
    tower_units: Units = (16,)
    """Layer widths of each task's tower."""


class SingleTask(_Model):
    """A tower for each task; they share only the embeddings."""

    kind: Literal["single_task"]

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        """See `Architecture`."""
        yield from side_by_side("towers", inputs, self.tower_units, tasks)
        yield from heads(tasks, self.tower_units[-1])


class SharedBottom(_Model):
    """One MLP for all tasks, then a tower each (Caruana: Multitask learning, 1997)."""

    kind: Literal["shared_bottom"]
    bottom_units: Units = (64, 32)
    """Layer widths of the shared MLP."""

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        """See `Architecture`."""
        yield from side_by_side("bottom", inputs, self.bottom_units, 1)
        yield from towers(tasks, self.bottom_units[-1], self.tower_units)


class Mmoe(_Model):
    """Multi-gate mixture of experts (Ma et al., KDD 2018)."""

    kind: Literal["mmoe"]
    num_experts: PositiveInt = 4
    """Number of experts."""
    expert_units: Units = (64, 32)
    """Layer widths of each expert."""
    top_k: PositiveInt | None = None
    """Number of experts that each gate uses: those with its largest weights (Shazeer et al., ICLR 2017, equations 3 to
    5, without noise). Left out: all."""

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        """See `Architecture`."""
        yield from side_by_side("experts", inputs, self.expert_units, self.num_experts)
        yield from dense("expert_gates", inputs, tuple((task, self.num_experts) for task in tasks))
        yield from towers(tasks, self.expert_units[-1], self.tower_units)


SHARED = "shared"
"""The group of the experts of all tasks in PLE."""


class Ple(_Model):
    """Progressive layered extraction (Tang et al., RecSys 2020); with one level it is CGC."""

    kind: Literal["ple"]
    num_levels: PositiveInt = 2
    """Number of levels."""
    shared_experts: PositiveInt = 2
    """Number of shared experts in each level."""
    task_experts: PositiveInt = 2
    """Number of experts of each task in each level."""
    expert_units: Units = (64, 32)
    """Layer widths of each expert."""

    def experts(self, tasks: Sequence[Name]) -> dict[str, int]:
        """Returns the number of experts of each group in a level: the tasks', `tasks/<task>`, then the shared ones."""
        return {f"tasks/{task}": self.task_experts for task in tasks} | {SHARED: self.shared_experts}

    def choices(self, tasks: Sequence[Name], level: int) -> dict[str, Blocks]:
        """Returns the groups that each gate of a level mixes, with their numbers of experts."""
        every = tuple(self.experts(tasks).items())
        choices: dict[str, Blocks] = {group: ((group, count), every[-1]) for group, count in every[:-1]}
        # Nothing reads the shared mixture of the last level.
        return choices if level == self.num_levels - 1 else choices | {SHARED: every}

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        """See `Architecture`."""
        width = self.expert_units[-1]
        for level in range(self.num_levels):
            name, experts, choices = f"levels/{level}", self.experts(tasks), self.choices(tasks, level)
            if level == 0:
                networks = [f"{group}/{each}" for group, count in experts.items() for each in range(count)]
                yield from side_by_side(f"{name}/experts", inputs, self.expert_units, networks)
                gates = tuple((f"{group} of {each}", size) for group, mixed in choices.items() for each, size in mixed)
                yield from dense(f"{name}/expert_gates", inputs, gates)
                continue
            for group, count in experts.items():
                yield from side_by_side(f"{name}/experts/{group}", width, self.expert_units, count)
            for group, mixed in choices.items():
                yield from dense(f"{name}/expert_gates/{group}", width, mixed)
        yield from towers(tasks, width, self.tower_units)


class Esmm(_Model):
    """Entire space multi-task model (Ma et al., SIGIR 2018): for a chain of tasks, P(step k) is the product of the
    conditional probabilities up to it, each from its own tower; all are trained on all examples."""

    kind: Literal["esmm"]
    chain: Annotated[tuple[Name, ...], Field(min_length=2)]
    """All tasks in the order of their events, such as [click, convert]; each label implies the previous one."""

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        """See `Architecture`."""
        del tasks
        yield from side_by_side("towers", inputs, self.tower_units, self.chain)
        yield from heads(self.chain, self.tower_units[-1])


class Aitm(_Model):
    """Adaptive information transfer (Xi et al., KDD 2021): each tower passes information to the next one of the chain;
    a prediction above that of an earlier step adds to the loss."""

    kind: Literal["aitm"]
    chain: Annotated[tuple[Name, ...], Field(min_length=2)]
    """All tasks in the order of their events, such as [click, convert]; each label implies the previous one."""
    calibrator_weight: NonNegativeFloat = 0.6
    """Weight of the calibrator in the loss: alpha."""

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        """See `Architecture`."""
        del tasks
        width = self.tower_units[-1]
        yield from side_by_side("towers", inputs, self.tower_units, self.chain)
        for task in self.chain[:-1]:
            yield from dense(f"transfers/{task}", width, width)
        for task in self.chain[1:]:
            yield weight(f"attentions/{task}/w", width, 3 * width, columns=3)
        yield from heads(self.chain, width)


Model = Annotated[roles.Architecture, AnyKind(roles.Architecture)]

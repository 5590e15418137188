"""Architectures: interactions of features, and layers that tasks share."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.spec.base import FrozenModel, Name, PositiveInt, Units
from sangam.schemas.spec.optimizers import Fraction, NonNegativeFloat


class DcnV2(FrozenModel):
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


MOST_PAIRED_VECTORS = 256
"""Most vectors of DLRM, with 32,640 pairs; a step with twice as many vectors takes six times as long."""


class Dlrm(FrozenModel):
    """Dot products of all pairs of embeddings (Naumov et al.: Deep learning recommendation model, 2019), with a
    vector of the numbers. All tables of features have one dimension."""

    kind: Literal["dlrm"]
    bottom_units: tuple[PositiveInt, ...] = (64,)
    """Layer widths of the MLP over the numbers; a last layer with the embeddings' dimension follows."""


Interaction = Annotated[DcnV2 | Dlrm, Field(discriminator="kind")]


class Ensemble(FrozenModel):
    """Members that share the rows and all matrices, and differ by rank-1 factors and biases: ((x * r_k) W) * s_k + b_k
    (Wen et al.: BatchEnsemble, ICLR 2020; TabM, Gorishniy et al., ICLR 2025). The score is the mean of the members'
    scores."""

    members: Annotated[int, Field(ge=2, le=256)]
    """Number of members."""


class _Model(FrozenModel):
    interaction: Interaction | None = None
    """Interaction of the features before the task heads. Left out: the features are concatenated."""
    tower_units: Units = (16,)
    """Layer widths of each task's tower."""
    dropout: Fraction = 0.0
    """Share of each hidden layer's outputs that training sets to zero."""
    ensemble: Ensemble | None = None
    """Ensemble within one model. Left out: one member."""

    @property
    def members(self) -> int:
        """Number of members; 1 without an ensemble."""
        return self.ensemble.members if self.ensemble else 1


class SingleTask(_Model):
    """A tower for each task; they share only the embeddings."""

    kind: Literal["single_task"]


class SharedBottom(_Model):
    """One MLP for all tasks, then a tower each (Caruana: Multitask learning, 1997)."""

    kind: Literal["shared_bottom"]
    bottom_units: Units = (64, 32)
    """Layer widths of the shared MLP."""


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


class Esmm(_Model):
    """Entire space multi-task model (Ma et al., SIGIR 2018): for a chain of tasks, P(step k) is the product of the
    conditional probabilities up to it, each from its own tower; all are trained on all examples."""

    kind: Literal["esmm"]
    chain: Annotated[tuple[Name, ...], Field(min_length=2)]
    """All tasks in the order of their events, such as [click, convert]; each label implies the previous one."""


class Aitm(_Model):
    """Adaptive information transfer (Xi et al., KDD 2021): each tower passes information to the next one of the chain;
    a prediction above that of an earlier step adds to the loss."""

    kind: Literal["aitm"]
    chain: Annotated[tuple[Name, ...], Field(min_length=2)]
    """All tasks in the order of their events, such as [click, convert]; each label implies the previous one."""
    calibrator_weight: NonNegativeFloat = 0.6
    """Weight of the calibrator in the loss: alpha."""


Model = Annotated[SingleTask | SharedBottom | Mmoe | Ple | Esmm | Aitm, Field(discriminator="kind")]

"""Architectures: how features interact, and what the tasks share."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel, Name, PositiveInt, Units
from schemas.spec.optimizers import Fraction, NonNegativeFloat


class DcnV2(FrozenModel):
    """Deep & cross network v2 (Wang et al., WWW 2021): x_{l+1} = x_0 * (W_l x_l + b_l) + x_l, equation 1."""

    kind: Literal["dcn_v2"]
    num_layers: PositiveInt = 2
    rank: PositiveInt | None = None
    """Width r of W = U V^T, equation 2; W is full when left out."""
    num_experts: PositiveInt = 1
    """Low-rank matrices per layer, mixed by a gate of its input, equations 3 and 4; more than one needs a rank."""
    deep_units: Units | None = None
    """Units of a deep part in parallel to the crosses; the task heads see both. Left out: no deep part."""


MOST_PAIRED_VECTORS = 256
"""DLRM names each pair: 32,640 of 256 vectors; a step with twice as many takes six times as long."""


class Dlrm(FrozenModel):
    """Dot products of all pairs of embeddings (Naumov et al.: Deep learning recommendation model, 2019), with a
    vector of the numbers. All tables of features have one dimension."""

    kind: Literal["dlrm"]
    bottom_units: tuple[PositiveInt, ...] = (64,)
    """Units of the MLP over the numbers; a last layer with the embeddings' dimension follows."""


Interaction = Annotated[DcnV2 | Dlrm, Field(discriminator="kind")]


class Ensemble(FrozenModel):
    """Members that share the rows and all matrices, and differ by rank-1 factors and biases: ((x * r_k) W) * s_k + b_k
    (Wen et al.: BatchEnsemble, ICLR 2020; TabM, Gorishniy et al., ICLR 2025). The score is the mean of theirs."""

    members: Annotated[int, Field(ge=2, le=256)]


class _Model(FrozenModel):
    interaction: Interaction | None = None
    """Combines the features before the task heads. Left out: they are concatenated."""
    tower_units: Units = (16,)
    """Units of each task's own MLP."""
    dropout: Fraction = 0.0
    """Share of each hidden layer's outputs that is zeroed in training."""
    ensemble: Ensemble | None = None
    """Several members instead of one model."""

    @property
    def members(self) -> int:
        """How many models one is."""
        return self.ensemble.members if self.ensemble else 1


class SingleTask(_Model):
    """A tower for each task; they share only the embeddings."""

    kind: Literal["single_task"]


class SharedBottom(_Model):
    """One MLP for all tasks, then a tower each (Caruana: Multitask learning, 1997)."""

    kind: Literal["shared_bottom"]
    bottom_units: Units = (64, 32)


class Mmoe(_Model):
    """Multi-gate mixture of experts (Ma et al., KDD 2018)."""

    kind: Literal["mmoe"]
    num_experts: PositiveInt = 4
    expert_units: Units = (64, 32)
    top_k: PositiveInt | None = None
    """Each gate uses only its k largest experts (Shazeer et al., ICLR 2017, equations 3 to 5, without noise); all
    when left out."""


class Ple(_Model):
    """Progressive layered extraction (Tang et al., RecSys 2020); with one level it is CGC."""

    kind: Literal["ple"]
    num_levels: PositiveInt = 2
    shared_experts: PositiveInt = 2
    """In each level."""
    task_experts: PositiveInt = 2
    """For each task in each level."""
    expert_units: Units = (64, 32)


class Esmm(_Model):
    """Entire space multi-task model (Ma et al., SIGIR 2018): for a chain of tasks, P(step k) is the product of the
    conditional probabilities up to it, each from its own tower; all are trained on all examples."""

    kind: Literal["esmm"]
    chain: Annotated[tuple[Name, ...], Field(min_length=2)]
    """All tasks in the order in which they happen, such as [click, convert]; each label implies the previous one."""


class Aitm(_Model):
    """Adaptive information transfer (Xi et al., KDD 2021): each task's tower also sees what the previous tower
    of the chain passes on; a later step predicted likelier than an earlier one adds to the loss."""

    kind: Literal["aitm"]
    chain: Annotated[tuple[Name, ...], Field(min_length=2)]
    """See `Esmm`."""
    calibrator_weight: NonNegativeFloat = 0.6
    """alpha: the calibrator's weight in the loss."""


Model = Annotated[SingleTask | SharedBottom | Mmoe | Ple | Esmm | Aitm, Field(discriminator="kind")]

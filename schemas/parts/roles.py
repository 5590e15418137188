"""The roles of parts: what a class that fills one declares, and the one method that computes it.

Tensors are TensorFlow's; nothing here loads it. Shape suffixes: B batch, I inputs, O outputs, T tasks, R lists, D
dimension.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sangam.schemas.parts.base import Fraction, FrozenModel, Name, PositiveFloat
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.kinds import AnyKind, Part
from sangam.schemas.parts.weight import Blocks, Weight
from sangam.schemas.problems import Problem

Tensor = Any
"""A tf.Tensor."""
Weights = Mapping[str, Tensor]
"""A part's weights by the names that it declares, each in its own shape."""
Noise = Any
"""Noise of dropout: `noise.dropout(x, rate, name)`; None outside training."""
Lists = Any
"""Embeddings of lists: `lists.padded()` gives [R, longest, D] and [R, longest] bool; `values_nD`, `lengths_R`, `ages_n`
(seconds before the row's time, None without times)."""


class Interaction(Part):
    """Interaction of the features before the task heads: x [B, I] to [B, O]."""

    role = "interaction"
    compute = "interact"
    takes_ensembles: ClassVar[bool] = False
    """Whether all its products with weights are layers of `sangam.parts.layers`, which know of an ensemble."""

    def weights(self, inputs: ModelInputs) -> Iterator[Weight]:
        """Yields its weights; none by default."""
        del inputs
        yield from ()

    def outputs(self, inputs: ModelInputs) -> Blocks:
        """Returns the blocks of its result; the inputs' by default."""
        return inputs.blocks

    def problems(self, inputs: ModelInputs) -> Iterator[Problem]:
        """Yields mistakes in its keys; places are relative to it."""
        del inputs
        yield from ()

    def interact(self, weights: Weights, x_BI: Tensor, inputs: ModelInputs, noise: Noise) -> Tensor:
        """Returns [B, O]; float32 or bfloat16 as x."""
        raise NotImplementedError


AnyInteraction = Annotated[Interaction, AnyKind(Interaction)]


class Encoder(Part):
    """Encoder of a sequence: from the embeddings of its ids to one vector."""

    role = "encoder"
    compute = "encode"
    keeps_lists: ClassVar[bool] = False
    """Whether it takes each user's list once, however many of the targets are the user's: `lists.of_targets`."""

    def attends_to(self) -> Name | None:
        """Returns the feature of one id whose embedding is the target; None: `target` is None."""
        return None

    def weights(self, dim: int, max_length: int) -> Iterator[Weight]:
        """Yields its weights for a table of `dim` floats; none by default."""
        del dim, max_length
        yield from ()

    def age_weights(self) -> Iterator[Weight]:
        """Yields those that it has besides for a sequence with times, `lists.ages_n`; none by default."""
        yield from ()

    def problems(self, dim: int, max_length: int) -> Iterator[Problem]:
        """Yields mistakes in its keys; places are relative to it."""
        del dim, max_length
        yield from ()

    def encode(self, weights: Weights, lists: Lists, target_QD: Tensor | None) -> Tensor:
        """Returns [R, D]; zeros for an empty list.

        Args:
            weights: its weights.
            lists: embeddings of the R lists.
            target_QD: embeddings of the targets. Q is R in training. When one user's candidates are scored, lists or
                targets may be one for all of the others: the result then has the larger number of rows.
        """
        raise NotImplementedError


class Ensemble(FrozenModel):
    """Members that share the rows and all matrices, and differ by rank-1 factors and biases: ((x * r_k) W) * s_k + b_k
    (Wen et al.: BatchEnsemble, ICLR 2020; TabM, Gorishniy et al., ICLR 2025). The score is the mean of the members'
    scores."""

    members: Annotated[int, Field(ge=2, le=256)]
    """Number of members."""


class Architecture(Part):
    """Layers from the features, or their interaction, to one logit per task."""

    role = "model"
    compute = "logits"
    takes_ensembles: ClassVar[bool] = False
    """See `Interaction`."""
    interaction: AnyInteraction | None = None
    """Interaction of the features before the task heads. Left out: the features are concatenated."""
    dropout: Fraction = 0.0
    """Share of each hidden layer's outputs that training sets to zero."""
    ensemble: Ensemble | None = None
    """Ensemble within one model. Left out: one member."""

    @property
    def members(self) -> int:
        """Number of members; 1 without an ensemble."""
        return self.ensemble.members if self.ensemble else 1

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        """Yields its weights."""
        del inputs, tasks
        yield from ()

    def problems(self, inputs: ModelInputs, tasks: Sequence[Name]) -> Iterator[Problem]:
        """Yields mistakes in its keys; places are relative to it."""
        del inputs, tasks
        yield from ()

    def logits(self, weights: Weights, x_BI: Tensor, inputs: Blocks, tasks: Sequence[Name], noise: Noise) -> Tensor:
        """Returns [B, T]; float32 or bfloat16 as x."""
        raise NotImplementedError


@dataclass(frozen=True)
class Examples:
    """What a loss may read of a rank's batch.

    Attributes:
        labels_B: labels; those of a regression are (label - center) / scale. 0 where there is none.
        is_labeled_B: bool; the loss of others is not used, and must be finite.
        ids: int64 [B], one value per distinct id, of the features that `Loss.reads` names.
    """

    labels_B: Tensor
    is_labeled_B: Tensor
    ids: Mapping[Name, Tensor]


class Loss(Part):
    """Loss of a task's examples by their logits. The prediction is the task's: a sigmoid, or center + scale * z."""

    compute = "losses"

    def reads(self) -> Sequence[Name]:
        """Returns the features of one id that it reads, such as the request; none by default."""
        return ()

    def losses(self, logits_B: Tensor, examples: Examples) -> Tensor:
        """Returns the loss of each example: [B] float32, finite for finite logits."""
        raise NotImplementedError


class BinaryLoss(Loss):
    """Loss of a task of kind `binary`."""

    role = "binary_loss"


class RegressionLoss(Loss):
    """Loss of a task of kind `regression`."""

    role = "regression_loss"


class DenseOptimizer(Part):
    """Optimizer of the dense weights, which are one vector of F floats."""

    role = "dense_optimizer"
    compute = "update"

    learning_rate: PositiveFloat
    """Learning rate, before the factor of `training.schedule`."""

    def moments(self) -> Mapping[str, float]:
        """Returns the vectors that it keeps besides the weights: initial values by name."""
        return {}

    def update(
        self, flat_F: Tensor, gradient_F: Tensor, moments: Mapping[str, Tensor], step: Tensor, rate: Tensor
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Returns the new weights and moments.

        Args:
            flat_F: weights before the step.
            gradient_F: mean over the global batch.
            moments: by name, [F] each.
            step: number of the step, from 1; int64.
            rate: `learning_rate` times the factor of the schedule.
        """
        raise NotImplementedError


Combiner = Literal["sum", "mean", "sqrtn"]


class Feature(Part):
    """A feature: from columns of the logs to floats, or to ids of a table. One graph serves training and serving."""

    role = "feature"
    compute = "transform"

    def reads(self, name: Name) -> Sequence[Column]:
        """Returns the columns that it reads, given its name in the spec."""
        raise NotImplementedError

    def table_name(self) -> Name | None:
        """Returns the table of its ids; None: it is floats."""
        return None

    def width(self) -> int:
        """Returns the number of floats per example; not used with a table."""
        return 1

    def is_list(self) -> bool:
        """Says whether it has any number of ids per example, which are combined; otherwise one."""
        return False

    def combined_by(self) -> Combiner:
        """Returns how the rows of several ids become one vector."""
        return "mean"

    def problems(self) -> Iterator[Problem]:
        """Yields mistakes in its keys; places are relative to it."""
        yield from ()

    def transform(self, columns: Sequence[Tensor]) -> Tensor:
        """Returns float32 [B, width]; with a table ids, int64 or string: [B], or ragged [B, None] of lists.

        Args:
            columns: in the order of `reads`: [B] of one value, ragged [B, None] of lists. A missing float is NaN, a
                missing text "", a missing int 0.
        """
        raise NotImplementedError

"""The layout of a model's input."""

from dataclasses import dataclass

from trainer_module.dense.weights import Blocks, width_of


@dataclass(frozen=True)
class ModelInputs:
    """The blocks of a model's input x [batch, inputs]: floats, then embeddings, side by side.

    Attributes:
        floats: features and their widths, in turn.
        embeddings: features and the widths of their vectors, in turn.
    """

    floats: Blocks = ()
    embeddings: Blocks = ()

    @property
    def blocks(self) -> Blocks:
        """All features and their widths, in turn."""
        return (*self.floats, *self.embeddings)

    @property
    def width(self) -> int:
        """Number of inputs."""
        return width_of(self.blocks)

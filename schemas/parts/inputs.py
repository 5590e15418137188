"""The model's input, as blocks of features side by side."""

from dataclasses import dataclass

from sangam.schemas.parts.weight import Blocks, width_of


@dataclass(frozen=True)
class ModelInputs:
    """The blocks of a model's input x [batch, inputs]: floats, then embeddings, side by side.

    Attributes:
        floats: features and their widths.
        embeddings: features and the widths of their vectors.
    """

    floats: Blocks = ()
    embeddings: Blocks = ()

    @property
    def blocks(self) -> Blocks:
        """All features and their widths."""
        return (*self.floats, *self.embeddings)

    @property
    def width(self) -> int:
        """Number of inputs."""
        return width_of(self.blocks)

"""Sizes of the workload, and its multiply-adds. Needs nothing but Python: processes without this project read it."""

from collections.abc import Iterator
from dataclasses import dataclass

NUM_IDS, NUM_FLOATS, NUM_TASKS, DIM = 20, 13, 3, 16
BATCH_SIZE_PER_RANK = 4096
NUM_EXPERTS, EXPERT_UNITS, TOWER_UNITS = 4, (256, 128), (64,)
TOTAL_IDS = 10_000_000
# How many ids each feature has, in units to be scaled to the total: from a few very wide ones to many narrow ones.
_CARDINALITIES = (
    (3_000_000, 2_000_000, 1_500_000, 1_000_000, 800_000, 500_000, 400_000, 300_000, 200_000, 100_000)
    + (50_000, 50_000, 30_000, 20_000)
    + (10_000,) * 6
)


@dataclass(frozen=True)
class Layer:
    """Equal products of the dense part: [batch, inputs] x [inputs, outputs].

    Attributes:
        name: name of the layer.
        inputs, outputs: widths of one.
        count: number of them.
        learned_inputs: number of inputs whose gradient is needed.
        has_weights: whether the right side is weights, with a bias; otherwise each example has its own.
    """

    name: str
    inputs: int
    outputs: int
    count: int = 1
    learned_inputs: int | None = None
    has_weights: bool = True

    @property
    def weights(self) -> int:
        """Number of weights of all, with biases."""
        return self.count * self.outputs * (self.inputs + 1) if self.has_weights else 0


@dataclass(frozen=True)
class Product:
    """Equal matrix products of a step: [m, k] x [k, n].

    Attributes:
        name: layer and gradient.
        m, k, n: sizes of one.
        count: number of them.
        left_transposed, right_transposed: whether that side is transposed in memory.
    """

    name: str
    m: int
    k: int
    n: int
    count: int
    left_transposed: bool = False
    right_transposed: bool = False

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of all."""
        return self.m * self.k * self.n * self.count

    @property
    def left(self) -> tuple[int, int]:
        """Shape in memory."""
        return (self.k, self.m) if self.left_transposed else (self.m, self.k)

    @property
    def right(self) -> tuple[int, int]:
        """Shape in memory."""
        return (self.n, self.k) if self.right_transposed else (self.k, self.n)


def cardinalities(num_ids: int = TOTAL_IDS) -> list[int]:
    """Returns how many ids each feature has, about `num_ids` together."""
    return [max(10, count * num_ids // sum(_CARDINALITIES)) for count in _CARDINALITIES]


def layers() -> tuple[Layer, ...]:
    """Returns the products of the model; the first layers of the experts are one."""
    inputs, (first, second), (tower,) = NUM_FLOATS + NUM_IDS * DIM, EXPERT_UNITS, TOWER_UNITS
    return (
        Layer("experts, first layers", inputs, NUM_EXPERTS * first, learned_inputs=NUM_IDS * DIM),
        Layer("experts, second layers", first, second, count=NUM_EXPERTS),
        Layer("gates", inputs, NUM_TASKS * NUM_EXPERTS, learned_inputs=NUM_IDS * DIM),
        Layer("experts, mixed", NUM_EXPERTS, second, count=NUM_TASKS, has_weights=False),
        Layer("towers", second, tower, count=NUM_TASKS),
        Layer("heads", tower, 1, count=NUM_TASKS),
    )


def dense_weights() -> int:
    """Returns the number of dense weights."""
    return sum(layer.weights for layer in layers())


def products(batch_size: int) -> Iterator[Product]:
    """Yields the matrix products of a step, forward and backward.

    Those of the experts' mixture are not among them: they are small and one for each example.
    """
    for layer in layers():
        if layer.has_weights:
            learned = layer.inputs if layer.learned_inputs is None else layer.learned_inputs
            yield Product(layer.name, batch_size, layer.inputs, layer.outputs, layer.count)
            yield Product(
                f"{layer.name}: weights", layer.inputs, batch_size, layer.outputs, layer.count, left_transposed=True
            )
            yield Product(
                f"{layer.name}: inputs", batch_size, layer.outputs, learned, layer.count, right_transposed=True
            )


def multiply_adds(batch_size: int) -> int:
    """Returns those of a step, forward and backward, the experts' mixture included."""
    mixed = sum(3 * batch_size * of.inputs * of.outputs * of.count for of in layers() if not of.has_weights)
    return mixed + sum(product.multiply_adds for product in products(batch_size))

"""The initial value of a weight. Loads without TensorFlow."""

import hashlib
import math
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.parts.weight import Weight


def initial(weight: Weight, seed: int) -> NDArray[Any]:
    """Returns the initial value, a function of the seed and the weight's name alone: equal on all ranks."""
    digest = hashlib.sha256(f"{seed}/{weight.name}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    match weight.start:
        case "zeros":
            return np.zeros(weight.shape, np.float32)
        case "ones":
            return np.ones(weight.shape, np.float32)
        case "signs":
            return generator.choice(np.array([-1, 1], np.float32), weight.shape)
        case "glorot":
            limit = math.sqrt(6.0 / (weight.shape[-2] + weight.shape[-1] / weight.columns))
            return generator.uniform(-limit, limit, weight.shape).astype(np.float32)
        case "normal":
            return generator.normal(0.0, weight.deviation, weight.shape).astype(np.float32)
        case _:
            assert_never(weight.start)

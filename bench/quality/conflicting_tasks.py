"""Two regression tasks whose correlation is set, after section 3.2 of the MMoE paper.

Two orthogonal unit vectors u_1, u_2 give the tasks' weights w_1 = c u_1 and w_2 = c (p u_1 + sqrt(1 - p^2) u_2); with
x ~ N(0, I), a task's label is w^T x + sum_i sin(alpha_i w^T x + beta_i) + N(0, 0.01). The cosine of the weights is the
correlation p. The paper leaves c, alpha and beta open.

Reference: Ma et al.: Modeling task relationships in multi-task learning with multi-gate mixture-of-experts, KDD 2018.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SCALE = 1.0
ALPHAS = np.array([1.0, 2.0, 3.0, 4.0])
BETAS = np.array([0.0, 0.5, 1.0, 1.5])
NOISE = 0.1


def generate(
    correlation: float, seed: int, num_examples: int, dim: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns x [examples, dim] and labels [examples, 2]; the tasks' weights are the seed's."""
    generator = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(generator.standard_normal((dim, 2)))
    mix = np.array([[1.0, correlation], [0.0, np.sqrt(1.0 - correlation**2)]])
    x = generator.standard_normal((num_examples, dim))
    labels = _curve(SCALE * x @ directions @ mix) + NOISE * generator.standard_normal((num_examples, 2))
    return x.astype(np.float32), labels.astype(np.float32)


def _curve(projected: NDArray[Any]) -> NDArray[Any]:
    return projected + np.sin(projected[..., None] * ALPHAS + BETAS).sum(-1)

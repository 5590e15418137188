"""The low-rank cross of DCN-v2."""

from collections.abc import Iterator
from typing import Literal

from sangam.parts import Interaction, ModelInputs, Noise, PositiveInt, Tensor, Weight, Weights, dense, tf, weight


class LowRankCross(Interaction):
    """x_{l+1} = x_0 * (U_l (V_l^T x_l) + b_l) + x_l.

    Wang et al.: DCN V2: Improved deep & cross network and practical lessons for web-scale learning to rank systems, WWW
    2021, equation 2.
    """

    kind: Literal["low_rank_cross"]
    rank: PositiveInt
    """Number of columns of U and V."""
    layers: PositiveInt = 2
    """Number of crosses."""

    def weights(self, inputs: ModelInputs) -> Iterator[Weight]:
        for layer in range(self.layers):
            yield weight(f"low_rank_cross/{layer}/v", inputs.blocks, self.rank)
            yield from dense(f"low_rank_cross/{layer}/u", self.rank, inputs.blocks)

    def interact(self, weights: Weights, x_BI: Tensor, inputs: ModelInputs, noise: Noise) -> Tensor:
        del inputs, noise
        crossed_BI = x_BI
        for layer in range(self.layers):
            v_IR, u_RI, b_I = (weights[f"low_rank_cross/{layer}/{name}"] for name in ("v", "u/w", "u/b"))
            crossed_BI = x_BI * (tf.matmul(tf.matmul(crossed_BI, v_IR), u_RI) + b_I) + crossed_BI
        return crossed_BI

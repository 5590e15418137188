"""Dot products of all pairs of vectors.

Reference: Naumov et al.: Deep learning recommendation model for personalization and recommendation systems, 2019,
section 2.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.weight import width_of
from sangam.schemas.spec.models import Dlrm
from sangam.trainer_module.dense.layers import Dense, Mlp
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input, whole
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: B batch, I inputs, F floats, N vectors, D their width, P pairs of vectors.

_FLOATS = "interaction/bottom"


class DlrmInteraction:
    """The dot products of all pairs of vectors, and beside them the output of an MLP over the floats.

    They are the strictly lower triangle of V V^T, row by row. Without floats there is no MLP and no such vector.
    """

    def __init__(self, spec: Dlrm, *, inputs: ModelInputs, dropout: float):
        dims = {dim for _, dim in inputs.embeddings}
        self._num_floats = width_of(inputs.floats)
        self._num_vectors = len(inputs.embeddings) + (1 if self._num_floats else 0)
        if len(dims) != 1 or self._num_vectors < 2:
            raise ValueError(
                f"model.interaction: dot products need two vectors of one width (got {inputs.embeddings}, "
                f"{self._num_floats} floats); declare another feature with a table, or give all tables one dim"
            )
        [self._dim] = dims
        self._hidden = Mlp(_FLOATS, len(spec.bottom_units), dropout=dropout)
        self._last = Dense(f"{_FLOATS}/last", relu=True)
        self.shared: tuple[str, ...] = self._last.matrices if self._num_floats else ()

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `Interaction`."""
        x_BI = whole(x_BI)
        if not self._num_floats:
            return pairwise_dots(tf.reshape(x_BI, [-1, self._num_vectors, self._dim]))
        floats_BF, embeddings_BI = x_BI[:, : self._num_floats], x_BI[:, self._num_floats :]
        floats_BD = self._last(weights, self._hidden(weights, floats_BF, noise))
        vectors_BND = tf.reshape(tf.concat([floats_BD, embeddings_BI], axis=1), [-1, self._num_vectors, self._dim])
        return tf.concat([floats_BD, pairwise_dots(vectors_BND)], axis=1)


@tf.custom_gradient
def pairwise_dots(vectors_BND: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Returns the dot product of vectors i and j for all i > j, row by row: [batch, pairs].

    Backward, the pairs' gradients are gathered into a symmetric matrix G; the vectors' gradient is G V. TensorFlow's
    own gradient of selecting pairs is a scatter: forward and backward together took up to 1.5 times as long.
    """
    size = vectors_BND.shape[1]
    rows, columns = np.tril_indices(size, -1)
    dots_BNN = tf.matmul(vectors_BND, vectors_BND, transpose_b=True)
    dots_BP = tf.gather(tf.reshape(dots_BNN, [-1, size * size]), rows * size + columns, axis=1)

    def gradient(g_BP: tf.Tensor) -> tf.Tensor:
        # The diagonal reads the zero behind the last pair.
        pair_of = np.full([size, size], len(rows))
        pair_of[rows, columns] = pair_of[columns, rows] = np.arange(len(rows))
        padded = tf.pad(g_BP, [[0, 0], [0, 1]])
        g_BNN = tf.reshape(tf.gather(padded, pair_of.ravel(), axis=1), [-1, size, size])
        return tf.matmul(g_BNN, vectors_BND)

    return dots_BP, gradient

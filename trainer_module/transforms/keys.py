"""From raw ids, strings or integers, to 64-bit keys, without a vocabulary."""

import tensorflow as tf

from sangam.schemas.derived.groups import KEY_ID_BITS

ID_BITS = KEY_ID_BITS
"""Low bits of a key: FarmHash64 of the id. Above them lies the tag of its table, from 1."""

NO_ID = 0
"""Key of an absent id: it never gets a row, and reads as zeros."""


def id_keys(tag: int | tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns the keys of ids: the table's tag, and the low bits of the id's FarmHash64.

    Keys of two tables are never equal, and a key says which table it is of, so that tables can share a physical table.
    Two of a table's n ids share a key with an expected n^2 / 2^53 pairs: 0.7 of 80 million ids. Low bits of 0 are left
    to `missing_key`: an id whose hash has them, one in 2^52, has 1.

    Args:
        tag: of the embedding table, 1 .. 2047 (`Inputs.table_tags`); or of each id's, [n] int64.
        ids: [n] string or an integer type.

    Returns:
        [n] int64, all positive.

    >>> keys = id_keys(3, tf.constant(["anna", "7"]))
    >>> tags_of(keys).numpy().tolist()
    [3, 3]
    >>> bool(keys[1] == id_keys(3, tf.constant([7]))[0])
    True
    """
    text = ids if ids.dtype == tf.string else tf.strings.as_string(ids)
    low = tf.bitwise.bitwise_and(tf.bitcast(tf.fingerprint(text), tf.int64), (1 << ID_BITS) - 1)
    high = tf.bitwise.left_shift(tf.convert_to_tensor(tag, tf.int64), tf.constant(ID_BITS, tf.int64))
    return tf.bitwise.bitwise_or(tf.maximum(low, 1), high)


def missing_key(tag: int) -> int:
    """Returns the key of a missing value that has a row of its own: no id of any table has it."""
    return tag << ID_BITS


def tags_of(keys: tf.Tensor) -> tf.Tensor:
    """Returns the tag of each key's table, 0 for `NO_ID`: int64 to int32 of the same shape."""
    return tf.cast(tf.bitwise.right_shift(keys, tf.constant(ID_BITS, tf.int64)), tf.int32)

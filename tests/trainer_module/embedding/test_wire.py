"""Packing what goes to each rank into one message."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


def test_a_message_holds_group_after_group_for_rank_after_rank_and_unpacks_to_what_it_was() -> None:
    from sangam.trainer_module.embedding.wire import pack, unpack

    sizes_RG = tf.constant([[1, 2], [0, 1], [2, 0]])
    groups = [tf.constant([10, 11, 12]), tf.constant([20, 21, 22])]
    packed = pack(groups, sizes_RG)
    np.testing.assert_array_equal(packed, [10, 20, 21, 22, 11, 12])
    for unpacked, group in zip(unpack(packed, sizes_RG), groups, strict=True):
        np.testing.assert_array_equal(unpacked, group)

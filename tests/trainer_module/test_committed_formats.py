"""The committed checkpoint and exported model are read as on the day they were written."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.export import DESCRIPTION_FILE, IS_KNOWN, SERVE, VECTORS, embeddings_of, read_description
from tests.trainer_module.committed_formats import (
    CHECKPOINT,
    CHECKPOINT_FOLDER,
    EXPECTED_SCORES,
    EXPECTED_STATE,
    EXPORT_FOLDER,
    MODEL,
    state_of,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks_restores_the_committed_checkpoint(ranks: int) -> None:
    restored = state_of(CHECKPOINT_FOLDER / CHECKPOINT, ranks=ranks)
    with np.load(CHECKPOINT_FOLDER / EXPECTED_STATE) as expected:
        assert restored.keys() == set(expected)
        for name, array in restored.items():
            assert array.dtype == expected[name].dtype
            np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_the_committed_model_gives_its_scores() -> None:
    tf: Any = pytest.importorskip("tensorflow")
    expected = json.loads((EXPORT_FOLDER / EXPECTED_SCORES).read_bytes())
    examples = tf.constant([base64.b64decode(example) for example in expected["examples"]])
    scores = tf.saved_model.load(str(EXPORT_FOLDER / MODEL)).signatures[SERVE](examples=examples)
    assert scores.keys() == expected["scores"].keys()
    for task, values in expected["scores"].items():
        np.testing.assert_allclose(scores[task].numpy()[:, 0], values, rtol=0, atol=1e-5, err_msg=task)


def test_the_description_of_the_committed_model_is_read() -> None:
    file = EXPORT_FOLDER / MODEL / DESCRIPTION_FILE
    described = read_description(str(file), file.read_bytes())
    assert (described.name, described.custom_ops) == ("tiny", None)


def test_the_committed_model_gives_the_vectors_of_its_ids() -> None:
    tf: Any = pytest.importorskip("tensorflow")
    expected = json.loads((EXPORT_FOLDER / EXPECTED_SCORES).read_bytes())["vectors"]
    signatures = tf.saved_model.load(str(EXPORT_FOLDER / MODEL)).signatures
    for table, rows in expected.items():
        answer = signatures[embeddings_of(table)](ids=tf.constant([*rows, "unknown"]))
        assert answer[IS_KNOWN].numpy().tolist() == [True] * len(rows) + [False]
        np.testing.assert_array_equal(answer[VECTORS], np.array([*rows.values(), [0.0, 0.0]], np.float32))

"""A checkpoint and an exported model of every format, as they were committed, are read as on the day they were written.

A format that is dropped on purpose loses its folder in tests/golden/formats, and the changelog tells users.
"""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.contracts.export import DESCRIPTION_FILE, SERVE, read_header
from schemas.contracts.export import FORMAT as EXPORT_FORMAT
from tests.trainer_module.committed_formats import (
    CHECKPOINT,
    EXPECTED_SCORES,
    EXPECTED_STATE,
    MODEL,
    checkpoint_folders,
    export_folders,
    state_of,
)
from trainer_module.checkpoint.manifest import FORMAT as CHECKPOINT_FORMAT
from trainer_module.checkpoint.manifest import read_manifest

pytestmark = pytest.mark.slow


def _number(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def test_the_present_formats_are_committed() -> None:
    assert CHECKPOINT_FORMAT in map(_number, checkpoint_folders())
    assert EXPORT_FORMAT in map(_number, export_folders())


@pytest.mark.parametrize("folder", checkpoint_folders(), ids=lambda folder: folder.name)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks_restores_a_committed_checkpoint(folder: Path, ranks: int) -> None:
    assert read_manifest(folder / CHECKPOINT).format == _number(folder)
    restored = state_of(folder / CHECKPOINT, ranks=ranks)
    with np.load(folder / EXPECTED_STATE) as expected:
        assert restored.keys() == set(expected)
        for name, array in restored.items():
            assert array.dtype == expected[name].dtype
            np.testing.assert_array_equal(array, expected[name], err_msg=name)


@pytest.mark.parametrize("folder", export_folders(), ids=lambda folder: folder.name)
def test_a_committed_model_gives_its_scores(folder: Path) -> None:
    tf: Any = pytest.importorskip("tensorflow")
    expected = json.loads((folder / EXPECTED_SCORES).read_bytes())
    examples = tf.constant([base64.b64decode(example) for example in expected["examples"]])
    scores = tf.saved_model.load(str(folder / MODEL)).signatures[SERVE](examples=examples)
    assert scores.keys() == expected["scores"].keys()
    for task, values in expected["scores"].items():
        np.testing.assert_allclose(scores[task].numpy()[:, 0], values, rtol=0, atol=1e-5, err_msg=task)


@pytest.mark.parametrize("folder", export_folders(), ids=lambda folder: folder.name)
def test_a_server_reads_the_header_of_a_committed_model(folder: Path) -> None:
    file = folder / MODEL / DESCRIPTION_FILE
    header = read_header(str(file), file.read_bytes())
    assert (header.format, header.name, header.custom_ops) == (_number(folder), "tiny", None)

"""The same seed gives the same bits, in another process too."""

import json
from pathlib import Path

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec
from tests.trainer_module.sample_job import declared, run_ranks, write_examples

pytestmark = pytest.mark.processes


def _declared() -> RankerSpec:
    """Returns a ranker with all that could bring chance in: dropout, a shuffle, random admission, two threads."""
    ranker = declared(
        tables={"tags": {"admission": {"kind": "random", "probability": 0.5}}},
        threads_per_rank=2,
        batch_size_per_rank=256,
        shuffle_buffer=500,
        epochs=2,
        loss_balance={"kind": "gradnorm"},
    )
    document = ranker.model_dump(mode="json", exclude_unset=True)
    document["model"] |= {"dropout": 0.2, "expert_units": [128, 64]}
    return RankerSpec.model_validate_json(json.dumps(document))


@pytest.mark.long
def test_two_processes_with_one_seed_end_with_equal_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_examples(tmp_path / "data")
    # Names in sets come in another order in every process.
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    losses = run_ranks(tmp_path / "1", _declared(), files)
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    again = run_ranks(tmp_path / "2", _declared(), files)
    np.testing.assert_array_equal(again, losses)
    arrays = sorted(path.name for path in (tmp_path / "1" / "final").glob("*.npy"))
    assert len(arrays) > 10
    for name in arrays:
        assert (tmp_path / "2" / "final" / name).read_bytes() == (tmp_path / "1" / "final" / name).read_bytes(), name

"""Rows that the base has learned from are left out, one by one."""

from pathlib import Path

import numpy as np
import pytest

from sangam.schemas.contracts import segments
from sangam.schemas.errors import UserError
from sangam.trainer_module.input.raw_examples import first_examples
from tests.trainer_module.online.streams import online_job, write_segments
from tests.trainer_module.sample_job import FIRST_EVENT_S, declared, write_examples

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")

_ROWS = 100
_SPEC = declared(event_time="at", tables={"users": {"expire_after_days": 3}}, batch_size_per_rank=16)


def _times(tmp_path: Path, learned_until: int | None, rank: int = 0, ranks: int = 1) -> list[np.ndarray]:
    from sangam.trainer_module.online.reading import SegmentReader

    made = online_job(tmp_path, _SPEC, base=tmp_path)
    files = write_examples(tmp_path / "data", num_files=1)
    write_segments(tmp_path / "examples", first_examples(files, _ROWS), rows=_ROWS)
    assert made.stream is not None
    made = made.model_copy(update={"stream": made.stream.model_copy(update={"learned_until": learned_until})})
    reader = SegmentReader(made, rank=rank, ranks=ranks)
    return [batch["event_time"].numpy() for batch in reader.batches(1)]


@pytest.mark.parametrize("learned", [None, 0, 33, 99])
def test_rows_up_to_the_base_are_left_out_and_batches_are_full(tmp_path: Path, learned: int | None) -> None:
    until = None if learned is None else FIRST_EVENT_S + 60 * learned
    times = _times(tmp_path, until)
    left = range(0 if learned is None else learned + 1, _ROWS)
    assert np.concatenate([np.zeros(0), *times]).tolist() == [FIRST_EVENT_S + 60 * number for number in left]
    assert all(len(of_batch) == 16 for of_batch in times[:-1])


def test_ranks_share_each_batch(tmp_path: Path) -> None:
    shares = [_times(tmp_path / str(rank), FIRST_EVENT_S, rank, 3) for rank in range(3)]
    assert [len(share) for share in shares] == [-(-99 // 48)] * 3
    assert sum(len(of_batch) for share in shares for of_batch in share) == 99


def test_a_damaged_segment_is_refused(tmp_path: Path) -> None:
    _times(tmp_path, None)
    from sangam.trainer_module.online.reading import SegmentReader

    file = segments.examples_file(tmp_path / "examples", 1)
    file.write_bytes(file.read_bytes()[:-1])
    made = online_job(tmp_path / "again", _SPEC, base=tmp_path)
    assert made.stream is not None
    stream = made.stream.model_copy(update={"segments": str(tmp_path / "examples")})
    reader = SegmentReader(made.model_copy(update={"stream": stream}), rank=0, ranks=1)
    with pytest.raises(UserError, match=str(file)):
        reader.batches(1)

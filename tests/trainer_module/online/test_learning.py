"""Online training by real ranks: what servers get is what the trainer has, whatever is killed in between."""

import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from schemas.contracts import deltas
from schemas.contracts.training_job import TrainJob
from schemas.spec import RankerSpec
from tests.trainer_module.online.streams import LINEAGE, Ranks, online_job, served_dense, served_rows, write_segments
from tests.trainer_module.sample_job import NUM_EXAMPLES, read_rows, run_ranks, write_examples
from tests.trainer_module.trained_examples import counting, occurrences
from trainer_module.checkpoint import folder
from trainer_module.checkpoint.manifest import read_manifest
from trainer_module.checkpoint.restore import read_dense
from trainer_module.input.raw_examples import first_examples

pytestmark = pytest.mark.slow

_ROWS = 50
_SPEC = counting(epochs=1, batch_size_per_rank=16)


class Trained(NamedTuple):
    """A base, the files it was trained on, and their rows as records."""

    checkpoint: Path
    files: tuple[str, ...]
    records: list[bytes]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    directory = tmp_path_factory.mktemp("base")
    files = write_examples(directory / "data", num_files=1)
    run_ranks(directory, _SPEC, files)
    return Trained(directory / "final", files, first_examples(files, NUM_EXAMPLES))


def _last(made: TrainJob) -> Path:
    return folder.published(Path(made.checkpoint_dir))[-1]


def _embeddings(checkpoint: Path, spec: RankerSpec = _SPEC) -> dict[int, np.ndarray]:
    rows = {}
    for group, dim in (("adagrad_4", 4), ("adagrad_8", 8)):
        keys, values = read_rows(checkpoint, group)
        rows |= dict(zip(keys.tolist(), values[:, :dim], strict=True))
    return rows


def _assert_served_is_trained(made: TrainJob, base: Trained) -> None:
    served, trained = served_rows(made, _embeddings(base.checkpoint)), _embeddings(_last(made))
    assert served.keys() == trained.keys()
    assert all(np.array_equal(served[key], trained[key]) for key in trained)
    dense = read_dense(_last(made), read_manifest(_last(made)))
    assert np.array_equal(
        np.sort(served_dense(made)),
        np.sort(np.concatenate([array.ravel() for name, array in dense.items() if name.startswith("weights/")])),
    )


def _counted(checkpoint: Path) -> dict[int, int]:
    counts: dict[int, int] = {}
    for group in ("adagrad_4", "adagrad_8"):
        keys, rows = read_rows(checkpoint, group)
        counts |= dict(zip(keys.tolist(), rows[:, -1].copy().view(np.int32).tolist(), strict=True))
    return counts


def test_servers_that_apply_all_deltas_have_the_trainers_rows_and_weights(tmp_path: Path, base: Trained) -> None:
    made = online_job(tmp_path, _SPEC, base=base.checkpoint)
    last = write_segments(tmp_path / "examples", base.records, rows=_ROWS)
    ranks = Ranks(made)
    ranks.wait_until(lambda state: state["segment"] == last)
    ranks.stop()
    _assert_served_is_trained(made, base)
    assert _counted(_last(made)) == {key: 2 * count for key, count in occurrences(base.files).items()}
    versions = Path(made.stream.versions) if made.stream else Path()
    numbers = deltas.published(versions, LINEAGE)
    assert numbers == list(range(1, len(numbers) + 1))
    assert deltas.read(versions, LINEAGE, numbers[-1]).segment == last


def test_a_training_killed_at_random_points_learns_each_example_once(tmp_path: Path, base: Trained) -> None:
    made = online_job(tmp_path, _SPEC, base=base.checkpoint, checkpoint_every_s=0.3)
    last = write_segments(tmp_path / "examples", base.records, rows=_ROWS)
    chance = random.Random(5)
    for kill_at in sorted(chance.sample(range(1, last), 4)):
        ranks = Ranks(made)
        ranks.wait_until(lambda state, least=kill_at: state["segment"] >= least)
        ranks.kill()
    ranks = Ranks(made)
    ranks.wait_until(lambda state: state["segment"] == last)
    ranks.stop()
    _assert_served_is_trained(made, base)
    assert _counted(_last(made)) == {key: 2 * count for key, count in occurrences(base.files).items()}

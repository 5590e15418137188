"""Online training by real ranks: what servers get is what the trainer has, whatever is killed in between."""

import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from schemas.contracts import deltas
from schemas.contracts.training_job import TrainJob
from schemas.spec import RankerSpec
from tests.trainer_module.online.forked import Kill, fork_server
from tests.trainer_module.online.streams import (
    LINEAGE,
    Ranks,
    calm,
    online_job,
    served_dense,
    served_rows,
    write_segments,
)
from tests.trainer_module.sample_job import NUM_EXAMPLES, read_rows, run_ranks, write_examples
from tests.trainer_module.sample_job import read_dense as read_dense_vectors
from tests.trainer_module.trained_examples import counting, occurrences
from trainer_module.checkpoint import folder
from trainer_module.checkpoint.manifest import read_manifest
from trainer_module.checkpoint.restore import read_dense
from trainer_module.input.raw_examples import first_examples

pytestmark = pytest.mark.slow

_ROWS = 50
_TIMES = 2
"""How often the records come in the stream of the training that is killed."""
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


def test_a_training_killed_at_20_random_points_ends_as_one_that_was_not(tmp_path: Path, base: Trained) -> None:
    busy = {"sync": {"rows_every_s": 0.05, "dense_every_s": 0.12, "full_every": 7}, "checkpoint_every_s": 0.1}
    chance, ends = random.Random(5), []
    with fork_server() as server:
        for name, kills in (("undisturbed", 0), ("killed", 20)):
            made = online_job(tmp_path / name, _SPEC, base=base.checkpoint, **busy)
            last = write_segments(tmp_path / name / "examples", _TIMES * base.records, rows=10)
            for _ in range(kills):
                rank = chance.randrange(2)
                kill = Kill(
                    rank, chance.randrange(1, 120 if rank else 250), chance.choice([0.0, 0.0, chance.random() / 5])
                )
                assert server.run(made, last=last, kill=kill), "it was done before it was killed"
            server.run(calm(made), last=last)
            _assert_served_is_trained(made, base)
            assert _counted(_last(made)) == {key: (1 + _TIMES) * n for key, n in occurrences(base.files).items()}
            ends.append(_last(made))
    undisturbed, killed = ends
    assert undisturbed.name == killed.name  # The same number of steps.
    for group in ("adagrad_4", "adagrad_8"):
        for one, other in zip(read_rows(undisturbed, group), read_rows(killed, group), strict=True):
            assert one.tobytes() == other.tobytes()
    assert {name: array.tobytes() for name, array in read_dense_vectors(undisturbed).items()} == {
        name: array.tobytes() for name, array in read_dense_vectors(killed).items()
    }

"""Online training by real ranks: what servers get is what the trainer has, whatever is killed in between."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.checkpoint import folder
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_dense
from sangam.trainer_module.input.raw_examples import first_examples
from sangam.trainer_module.transforms.keys import ID_BITS
from tests.fakes import bad_disk
from tests.trainer_module.online.forked import ForkServer, Kill, fork_server
from tests.trainer_module.online.streams import (
    LINEAGE,
    calm,
    online_job,
    served_dense,
    served_rows,
    write_segments,
)
from tests.trainer_module.sample_job import NUM_EXAMPLES, declared, read_rows, run_ranks, write_examples
from tests.trainer_module.sample_job import read_dense as read_dense_vectors
from tests.trainer_module.trained_examples import occurrences

pytestmark = pytest.mark.processes

_TIMES = 2
"""How often the records come in the stream."""
_COUNTED = {"capacity": {"rows": 1000, "evict": "least_frequent"}}
_SPEC = declared(
    tables={"users": _COUNTED, "posts": _COUNTED, "tags": {"capacity": {"rows": 12, "evict": "least_frequent"}}},
    ranks=2,
    batch_size_per_rank=16,
    evict_every_steps=5,
    average={"kind": "ema", "decay": 0.9},
)
"""Tables that count how often each id was trained on; half of the tags have no room. Dense weights are averaged."""


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


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with fork_server() as started:
        yield started


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
        np.sort(np.concatenate([array.ravel() for name, array in dense.items() if name.startswith("average/")])),
    )


def _published(made: TrainJob) -> list[int]:
    assert made.stream is not None
    return deltas.published(Path(made.stream.versions), LINEAGE)


def _assert_each_counted(made: TrainJob, base: Trained) -> None:
    """Compares how often each user and post was trained on, by their tables' own books, with the data."""
    tags = _SPEC.table_tags()["tags"]
    counts: dict[int, int] = {}
    for group in ("adagrad_4", "adagrad_8"):
        keys, rows = read_rows(_last(made), group)
        counts |= dict(zip(keys.tolist(), rows[:, -1].copy().view(np.int32).tolist(), strict=True))
    wanted = {
        key: (1 + _TIMES) * count for key, count in occurrences(base.files, ("user", "post", "history", "tags")).items()
    }
    assert {key: n for key, n in counts.items() if key >> ID_BITS != tags} == {
        key: n for key, n in wanted.items() if key >> ID_BITS != tags
    }


def _last_segment(directory: Path, base: Trained) -> int:
    """Writes the stream of a training; returns the number of its last segment."""
    return write_segments(directory / "examples", _TIMES * base.records, rows=10)


@pytest.mark.long
def test_a_training_killed_at_three_random_points_ends_as_one_that_was_not(
    tmp_path: Path, base: Trained, server: ForkServer
) -> None:
    busy = {"sync": {"rows_every_s": 0.05, "dense_every_s": 0.12, "full_every": 7}, "checkpoint_every_s": 0.1}
    chance, ends = random.Random(5), []
    for name, kills in (("undisturbed", 0), ("killed", 3)):
        made = online_job(tmp_path / name, _SPEC, base=base.checkpoint, **busy)
        last = _last_segment(tmp_path / name, base)
        for _ in range(kills):
            rank = chance.randrange(2)
            kill = Kill(rank, chance.randrange(1, 80 if rank else 200), chance.choice([0.0, 0.0, chance.random() / 5]))
            assert server.run(made, last=last, kill=kill), "it was done before it was killed"
        server.run(calm(made), last=last)
        _assert_served_is_trained(made, base)
        _assert_each_counted(made, base)
        ends.append(made)
    undisturbed, killed = map(_last, ends)
    assert undisturbed.name == killed.name  # The same number of steps.
    for group in ("adagrad_4", "adagrad_8"):
        for one, other in zip(read_rows(undisturbed, group), read_rows(killed, group), strict=True):
            assert one.tobytes() == other.tobytes()
    assert {name: array.tobytes() for name, array in read_dense_vectors(undisturbed).items()} == {
        name: array.tobytes() for name, array in read_dense_vectors(killed).items()
    }
    published = [deltas.read(tmp_path / "killed" / "versions", LINEAGE, n) for n in _published(ends[1])]
    assert [delta.number for delta in published] == list(range(1, len(published) + 1))
    assert published[-1].segment == last
    # Tags beyond their capacity; how many come back before a delta tells of them is chance.
    assert sum(delta.groups["adagrad_4"].removed for delta in published) > 0


@pytest.mark.long
def test_a_full_disk_ends_the_ranks_with_the_reason_and_once_it_has_room_nothing_is_lost(
    tmp_path: Path, base: Trained, server: ForkServer
) -> None:
    made = online_job(tmp_path, _SPEC, base=base.checkpoint, checkpoint_every_s=0.1)
    last, versions = _last_segment(tmp_path, base), tmp_path / "versions"
    bad_disk.begin(versions, "full")
    codes = server.run_to_end(made, last=last + 1, bad_disk=versions)
    assert 1 in codes.values()  # Whichever of them ends first takes the other with it.
    logs = [(Path(made.log_dir) / f"rank-{rank}.log").read_text() for rank in codes]
    assert any("No space left on device" in log for log in logs), logs
    assert _published(made) == []
    bad_disk.end(versions, "full")
    server.run(calm(made), last=last)
    _assert_served_is_trained(made, base)
    _assert_each_counted(made, base)

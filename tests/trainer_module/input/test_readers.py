"""Batches: every example once, in an order that a resumed epoch takes up where it was left."""

import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.training import Order
from tests.trainer_module.sample_job import FIRST_EVENT_S, NUM_EXAMPLES, declared, write_days, write_examples

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

DAYS = ("2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02")
ORDERS: tuple[Order, ...] = ("time", "shuffled_within_day", "shuffled")


@pytest.fixture(scope="module")
def pool() -> Iterator[str]:
    with _serving(workers=2) as address:
        yield address


@pytest.fixture(scope="module")
def lone_worker() -> Iterator[str]:
    with _serving(workers=1) as address:
        yield address


@contextmanager
def _serving(workers: int) -> Iterator[str]:
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    servers = [service.WorkerServer(service.WorkerConfig(dispatcher_address=address)) for _ in range(workers)]
    yield address
    gc.collect()  # A client of a dispatcher that has ended would call it ten times a second.
    del servers, dispatcher


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def day_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_days(tmp_path_factory.mktemp("days"), DAYS, files_a_day=2)


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("many"), num_files=13)


def _ages(batches: Sequence[dict]) -> np.ndarray:  # type: ignore[type-arg]
    """The `age` of an example, the only float, is as good as its name."""
    return np.concatenate([batch["floats"].numpy()[:, 0] for batch in batches])


def _own(
    ranker: RankerSpec, files: tuple[str, ...], *, ranks: int, skip: int = 0, epoch: int = 0
) -> list[list[np.ndarray]]:
    """Returns each rank's examples, step after step."""
    from sangam.trainer_module.input.local_reader import own_batches

    parts = [own_batches(ranker, files, epoch=epoch, rank=rank, ranks=ranks, skip=skip) for rank in range(ranks)]
    return [[_ages([batch]) for batch in of_step] for of_step in zip(*parts, strict=True)]


def _assert_slices(steps: list[list[np.ndarray]], whole: np.ndarray) -> None:
    """Asserts that the ranks' batches of each step are the next slice of an order, dealt."""
    start = 0
    for of_ranks in map(np.concatenate, steps):
        np.testing.assert_array_equal(np.sort(of_ranks), np.sort(whole[start : start + len(of_ranks)]))
        start += len(of_ranks)
    assert start == len(whole)


@pytest.mark.parametrize("shuffle_buffer", [pytest.param(1, marks=pytest.mark.long), 300])
def test_read_by_the_ranks_examples_come_in_one_order_whatever_the_number_of_ranks_and_the_start(
    files: tuple[str, ...], shuffle_buffer: int
) -> None:
    ranker = declared(shuffle_buffer=shuffle_buffer)
    whole, other_epoch = (
        np.concatenate([batch for [batch] in _own(ranker, files, ranks=1, epoch=epoch)]) for epoch in (0, 1)
    )
    assert len(np.unique(whole)) == NUM_EXAMPLES
    of_three = _own(ranker, files, ranks=3)
    assert [len(batch) for batch in of_three[0]] == [64, 64, 64]
    _assert_slices(of_three, whole)
    _assert_slices(_own(ranker, files, ranks=2, skip=128), whole[128:])
    assert np.array_equal(other_epoch, whole) == (shuffle_buffer == 1)


def test_the_batches_of_a_step_have_about_as_many_ids_read_by_the_ranks_or_by_a_pool(
    files: tuple[str, ...], lone_worker: str
) -> None:
    """Lists of 0 to 8 ids: two batches of 16 as they come differ by 9 ids on average."""
    from sangam.trainer_module.input.local_reader import own_batches

    ranker = declared(data_workers=1, shuffle_buffer=20_000, batch_size_per_rank=16)
    of_ranks = zip(*(own_batches(ranker, files, epoch=0, rank=rank, ranks=2) for rank in (0, 1)), strict=True)
    of_pool = [batch for batch in _pool_epoch(ranker, files, lone_worker, 0) if len(batch["labels"]) == 16]
    for steps in (list(of_ranks)[:-1], list(zip(of_pool[::2], of_pool[1::2], strict=False))):
        assert np.mean([abs(len(one["lists"]) - len(other["lists"])) for one, other in steps]) < 3


def _pool_epoch(ranker: RankerSpec, files: tuple[str, ...], pool: str, epoch: int, trained: np.ndarray | None = None):  # type: ignore[no-untyped-def]
    from sangam.trainer_module.input.example_reader import transformed_reader
    from sangam.trainer_module.input.service_reader import PoolEpoch, training_parts

    reader = transformed_reader(ranker)
    return PoolEpoch(
        reader,
        training_parts(ranker, files, epoch),
        ranker.training.batch_size_per_rank,
        service=pool,
        name=f"epoch-{epoch}-{len(files)}",
        trained=np.zeros([0, 2], np.int64) if trained is None else trained,
    )


@pytest.mark.parametrize("name", ["files", pytest.param("many_files", marks=pytest.mark.long)])
def test_an_epoch_of_the_pool_goes_on_with_exactly_the_examples_that_were_left(
    request: pytest.FixtureRequest, pool: str, name: str
) -> None:
    files = request.getfixturevalue(name)
    ranker = declared(data_workers=2, shuffle_buffer=100, batch_size_per_rank=16, ranks=2)
    epoch = {"files": 0, "many_files": 10}[name]
    first = _pool_epoch(ranker, files, pool, epoch)
    seen = []
    for batch in first:
        seen.append(batch)
        first.stepped()
        if len(seen) == 20:
            break
    trained = first.trained()
    assert trained.shape == (20, 2)
    second = _resumed(ranker, files, pool, epoch, trained)
    left = _ages(second)
    assert len(left) + 20 * 16 >= NUM_EXAMPLES
    both = np.concatenate([_ages(seen), left])
    assert len(both) == len(np.unique(both)) == NUM_EXAMPLES


def _resumed(ranker: RankerSpec, files: tuple[str, ...], pool: str, epoch: int, trained: np.ndarray) -> list:  # type: ignore[type-arg]
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    found = list(_pool_epoch(ranker, files, address, epoch, trained))
    del worker, dispatcher
    return found


def _ordered(order: Order, **changes: Any) -> RankerSpec:
    return declared(event_time="at", order=order, shuffle_buffer=20_000, **changes)


def _places(batch: dict[str, Any]) -> np.ndarray:
    """The places of a batch's examples in the logs, from 0."""
    found: np.ndarray = (batch["event_time"].numpy() - FIRST_EVENT_S) // 60
    return found


def _days(places: np.ndarray) -> np.ndarray:
    firsts = [day * NUM_EXAMPLES // len(DAYS) for day in range(1, len(DAYS))]
    days: np.ndarray = np.searchsorted(firsts, places, side="right")
    return days


def _global_batches(ranker: RankerSpec, files: tuple[str, ...], *, ranks: int, skip: int = 0) -> list[np.ndarray]:
    from sangam.trainer_module.input.local_reader import own_batches

    parts = [own_batches(ranker, files, epoch=0, rank=rank, ranks=ranks, skip=skip) for rank in range(ranks)]
    return [np.concatenate([_places(batch) for batch in step]) for step in zip(*parts, strict=True)]


def test_in_the_order_of_time_the_batch_of_all_ranks_is_a_slice_of_time(day_files: tuple[str, ...]) -> None:
    steps = _global_batches(_ordered("time"), day_files[::-1], ranks=2)
    assert [len(step) for step in steps][:2] == [128, 128]
    np.testing.assert_array_equal(np.concatenate([np.sort(step) for step in steps]), np.arange(NUM_EXAMPLES))


def test_shuffled_within_the_day_days_stay_in_order_and_a_resumed_epoch_goes_on(day_files: tuple[str, ...]) -> None:
    ranker = _ordered("shuffled_within_day")
    places = np.concatenate(_global_batches(ranker, day_files, ranks=1))
    assert np.array_equal(np.sort(places), np.arange(NUM_EXAMPLES))
    assert np.array_equal(_days(places), np.sort(_days(places)))
    for day in range(len(DAYS)):
        of_day = places[_days(places) == day]
        # Shuffled over all files of the day: a rank correlation of 250 random ranks is under 0.3.
        assert abs(np.corrcoef(of_day, np.arange(len(of_day)))[0, 1]) < 0.3
    _assert_slices([[step] for step in _global_batches(ranker, day_files, ranks=3, skip=256)], places[256:])


def test_shuffled_the_days_are_over_each_other(day_files: tuple[str, ...]) -> None:
    first = _global_batches(_ordered("shuffled"), day_files, ranks=1)[0]
    assert len(first) == 64
    assert set(_days(first)) == set(range(len(DAYS)))


@pytest.mark.parametrize("order", ORDERS)
def test_a_worker_of_a_pool_keeps_the_order(day_files: tuple[str, ...], lone_worker: str, order: Order) -> None:
    ranker = _ordered(order, data_workers=1, batch_size_per_rank=8)
    epoch = _pool_epoch(ranker, day_files, lone_worker, 20 + ORDERS.index(order))
    places = [_places(batch) for batch in epoch]
    assert np.array_equal(np.sort(np.concatenate(places)), np.arange(NUM_EXAMPLES))
    means = np.array([np.mean(_days(of_batch)) for of_batch in places])
    assert bool((np.diff(means) >= 0).all()) == (order != "shuffled")


@pytest.mark.parametrize("ranks", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_ranks_share_the_validation_split_and_no_rank_opens_anothers_files(
    day_files: tuple[str, ...], tmp_path: Path, ranks: int
) -> None:
    from sangam.trainer_module.input.local_reader import validation_batches
    from sangam.trainer_module.input.order import files_of_rank

    seen = []
    for rank in range(ranks):
        folder = tmp_path / str(rank)
        folder.mkdir()
        for file in map(Path, day_files):
            content = (
                file.read_bytes() if str(file) in files_of_rank(day_files, rank, ranks).files else b"not to be read"
            )
            (folder / file.name).write_bytes(content)
        files = [str(folder / Path(file).name) for file in day_files]
        seen.append(
            np.concatenate([_places(b) for b in validation_batches(_ordered("time"), files, rank=rank, ranks=ranks)])
        )
    assert [len(of_rank) for of_rank in seen] == pytest.approx([NUM_EXAMPLES / ranks] * ranks, abs=130)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(NUM_EXAMPLES))


@pytest.mark.long
def test_of_one_file_each_rank_takes_its_share_and_a_pool_gives_each_example_once(
    files: tuple[str, ...], pool: str
) -> None:
    from sangam.trainer_module.input.example_reader import transformed_reader
    from sangam.trainer_module.input.local_reader import validation_batches
    from sangam.trainer_module.input.service_reader import PoolEpoch, validation_parts

    ranker = _ordered("shuffled", data_workers=2)
    whole = sorted(np.concatenate([_places(b) for b in validation_batches(ranker, files[:1], rank=0, ranks=1)]))
    shares = [
        np.concatenate([_places(batch) for batch in validation_batches(ranker, files[:1], rank=rank, ranks=2)])
        for rank in (0, 1)
    ]
    assert [len(share) for share in shares] == [175, 160]
    assert sorted(np.concatenate(shares)) == whole
    none = np.zeros([0, 2], np.int64)
    reader = transformed_reader(ranker)
    parts = validation_parts(ranker, files[:1])
    batch_size = ranker.training.batch_size_per_rank
    served = PoolEpoch(reader, parts, batch_size, service=pool, name="validate", trained=none)
    assert sorted(np.concatenate([_places(batch) for batch in served])) == whole


def test_a_part_that_did_not_come_whole_is_noticed_whatever_else_came() -> None:
    from sangam.trainer_module.input.service_reader import LostBatchesError, refuse_lost

    whole = np.array([[3, 2], [1, 1], [3, 2]])
    refuse_lost(whole)
    for row, part in ((0, 1), (1, 0)):
        lost = whole.copy()
        lost[row, part] -= 1
        with pytest.raises(
            LostBatchesError, match=f"1 of 2 parts .* \\(first: part {part}, {lost[0, part]} batches\\)"
        ):
            refuse_lost(lost)
    with pytest.raises(LostBatchesError):
        refuse_lost(np.array([[4, 2], [1, 1], [3, 2]]))


@pytest.mark.parametrize(
    ("name", "order"),
    [
        pytest.param("day_files", "time", marks=pytest.mark.long),
        ("day_files", "shuffled_within_day"),
        pytest.param("day_files", "shuffled", marks=pytest.mark.long),
        pytest.param("files", "shuffled", marks=pytest.mark.long),
        ("many_files", "shuffled"),
    ],
)
def test_no_block_is_decompressed_twice_in_an_epoch_of_several_workers_and_ranks(
    request: pytest.FixtureRequest, pool: str, name: str, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = request.getfixturevalue(name)
    decompressed: Counter[bytes] = Counter()
    decompress = tf.io.decode_compressed

    def count(blocks: np.ndarray) -> np.ndarray:
        decompressed.update(blocks.tolist())
        return blocks

    def counted(blocks_W: Any, compression: str) -> Any:
        # The workers of this pool are threads of this process.
        return decompress(tf.ensure_shape(tf.numpy_function(count, [blocks_W], tf.string), [None]), compression)

    monkeypatch.setattr(tf.io, "decode_compressed", counted)
    ranker = _ordered(order, data_workers=2, batch_size_per_rank=16, ranks=2)
    ranks = [iter(_pool_epoch(ranker, files, pool, 40 + ORDERS.index(order))) for _ in range(2)]
    batches = [batch for of_step in zip_longest(*ranks) for batch in of_step if batch is not None]
    assert np.array_equal(np.sort(np.concatenate([_places(batch) for batch in batches])), np.arange(NUM_EXAMPLES))
    blocks = Counter(block for file in files for block in tf.data.TFRecordDataset(file).as_numpy_iterator())
    assert len(blocks) > 40
    assert decompressed == blocks


@pytest.mark.long
def test_an_epoch_ends_when_its_last_batch_is_taken_however_long_it_took(files: tuple[str, ...], pool: str) -> None:
    from sangam.trainer_module.input.example_reader import transformed_reader
    from sangam.trainer_module.input.local_reader import own_batches

    reader = transformed_reader(declared())
    # Of those with tf.data's tuner, one of four or so would wait for it, which wakes after 1.3 and then after 2.5 s.
    epochs = [iter(own_batches(declared(), files, epoch=0, rank=0, ranks=1, reader=reader)) for _ in range(15)]
    epochs += [iter(_pool_epoch(declared(data_workers=2), files, pool, epoch)) for epoch in range(70, 73)]
    for batches in epochs:
        next(batches)
    time.sleep(1.4)
    started = time.monotonic()
    del batches, epochs
    # The tuner's next wake-up is 1.1 s away.
    assert time.monotonic() - started < 0.9


def test_autograph_does_not_spend_seconds_on_the_graph_of_the_input(files: tuple[str, ...], pool: str) -> None:
    from sangam.trainer_module.input.example_reader import ExampleReader, transformed_reader
    from sangam.trainer_module.input.local_reader import own_batches, validation_batches
    from sangam.trainer_module.input.service_reader import PoolEpoch, validation_parts

    ranker = declared(data_workers=1)
    table = transformed_reader(ranker).table

    def batch_of(rows: Any) -> Any:
        if rows["float32_0000"][1][0, 0] > 0:  # Autograph alone can make this a graph.
            return rows["float32_0000"]
        return rows["int64_0000"]

    reader = ExampleReader(table, batch_of)
    none = np.zeros([0, 2], np.int64)
    parts = validation_parts(ranker, files)
    for build in (
        lambda: own_batches(ranker, files, epoch=0, rank=0, ranks=1, reader=reader),
        lambda: validation_batches(ranker, files, rank=0, ranks=1, reader=reader),
        lambda: PoolEpoch(reader, parts, 8, service=pool, name="none", trained=none),
    ):
        with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
            build()


@pytest.mark.long
def test_the_graph_of_the_input_is_built_once_for_all_epochs(files: tuple[str, ...], pool: str) -> None:
    from sangam.trainer_module.input.example_reader import ExampleReader, transformed_reader
    from sangam.trainer_module.input.local_reader import own_batches, validation_batches
    from sangam.trainer_module.input.service_reader import PoolEpoch, training_parts

    ranker = declared(data_workers=2, shuffle_buffer=300)
    found = transformed_reader(ranker)
    built = []

    def batch_of(rows: Any) -> Any:
        built.append(rows)
        return found.batch_of(rows)

    reader = ExampleReader(found.table, batch_of)

    def epoch_of_pool(epoch: int, trained: list[list[int]]) -> PoolEpoch:
        batches = np.array(trained, np.int64).reshape(-1, 2)
        parts, name = training_parts(ranker, files, epoch), f"built-{epoch}"
        return PoolEpoch(reader, parts, 8, service=pool, name=name, trained=batches)

    for number, build in enumerate(
        (
            lambda epoch: own_batches(ranker, files, epoch=epoch, rank=0, ranks=1, skip=epoch, reader=reader),
            lambda _: validation_batches(ranker, files, rank=0, ranks=1, reader=reader),
            lambda epoch: epoch_of_pool(epoch, []),
        )
    ):
        for epoch in range(3):
            build(epoch)
        assert len(built) == 1 + number
    assert len(built) == 3

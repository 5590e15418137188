"""Dense layers, and rows, on a second device: proven with two logical CPUs, one as the accelerator."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.errors import mentions
from tests.trainer_module.equivalence import TOLERANCE, read_state
from tests.trainer_module.placed import PLACES, difference, files_of, learn, placed
from tests.trainer_module.rank_processes import run_on_ranks
from tests.trainer_module.sample_job import declared, write_examples

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def on_one_device(rank: int, ranks: int, directory: Path) -> None:
    """Runs on one rank: trains without an accelerator."""
    from sangam.trainer_module.placement import Placement

    assert ranks == 1
    learn(placed("host"), Placement(), directory, "plain", rank)


def prove(rank: int, ranks: int, directory: Path) -> None:
    """Runs on every rank: trains with rows on the host and on the accelerator, one rank also without one."""
    from sangam.trainer_module import collectives, placement

    beside = placement.Placement(placement.logical_accelerator())
    if ranks > 1:
        together = directory / "ranks"
        together.mkdir(exist_ok=True)
        collectives.share_memory(together)
    if ranks == 1:
        on_one_device(rank, ranks, directory)
    for place in PLACES:
        with beside.host():
            trainer = learn(placed(place, ranks), beside, directory, place, rank)
            if ranks == 1:
                _exchange_checkpoint(trainer, place, directory)


def _exchange_checkpoint(trainer: Any, place: str, directory: Path) -> None:
    """Restores a placement's checkpoint into the other one; writes what both predict, and their rows."""
    from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
    from sangam.trainer_module.checkpoint.manifest import Manifest, read_manifest
    from sangam.trainer_module.checkpoint.warm_start import warm_start
    from sangam.trainer_module.checkpoint.writer import Contents, write
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.input.position import Position
    from sangam.trainer_module.input.train_input import no_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    ranker, checkpoint = trainer.ranker, directory / f"from-{place}"
    layouts = {"groups": group_layouts(ranker.spec), "weights": weight_layouts(ranker.weights.weights)}
    numbers = {"step": trainer.step, "ranks": 1, "seed": 1, "spec_digest": "", "job_digest": ""}
    manifest = Manifest(**numbers, days=("2024-02-29",), position=Position(), **layouts)
    write(checkpoint, Contents(manifest, trainer.snapshot(), no_batches(), b"{}", {}), 0, deadline_s=1.0)
    # From the device to the host, and from the host to both.
    other = placed("host") if place == "device" else placed("device", without="tags")
    again = InStepTrainer(Ranker(other, placement=ranker.placement), rank=0, ranks=1)
    again.restore(warm_start(checkpoint, read_manifest(checkpoint), again.ranker, rank=0, ranks=1).snapshot)
    batch = next(iter(own_batches(other, files_of(directory), epoch=0, rank=0, ranks=1)))
    before, after = (np.concatenate(list(each.predict(batch).values()), 1) for each in (trainer, again))
    rows = [sum(len(group.keys) for group in each.snapshot().groups.values()) for each in (trainer, again)]
    sides = {"device": trainer.logits(batch).numpy(), "host": trainer.logits_on_host(batch).numpy()}
    np.savez(directory / f"from-{place}.npz", before=before, after=after, rows=np.array(rows), **sides)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a process that trained by itself."""
    folder = _world(tmp_path_factory.mktemp("placement"))
    run_on_ranks(prove, 1, folder / "1")
    return folder / "1"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one process without an accelerator, and of two ranks with one on the same global batches."""
    folder = _world(tmp_path_factory.mktemp("two"))
    run_on_ranks(on_one_device, 1, folder / "1")
    run_on_ranks(prove, 2, folder / "2")
    return folder


def _world(folder: Path) -> Path:
    write_examples(folder / "data", minutes_apart=10)
    for number in ("1", "2"):
        (folder / number / "logs").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("place", PLACES)
def test_a_placement_learns_what_one_device_learns(alone: Path, place: str) -> None:
    plain = read_state(alone, "plain", 1)
    assert plain["losses"][-5:].mean() < plain["losses"][:5].mean()
    assert difference(read_state(alone, place, 1), plain) < TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_two_ranks_with_accelerators_equal_one_process(two: Path, place: str) -> None:
    assert difference(read_state(two / "2", place, 2), read_state(two / "1", "plain", 1)) < TOLERANCE


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_computed_on_the_wrong_side(alone: Path, place: str) -> None:
    host, device = _sides(alone, place)
    for kind, side, other in (
        ("MatMul", device, host),
        ("Softmax", device, host),
        ("ResourceApplyAdam", device, host),
        ("CuckooHashTable", host, device),
        ("UniqueWithCounts", host, device),
        ("ResourceScatterMax", host, device),
    ):
        assert _has(side, kind), kind
        assert not _has(other, kind), kind
    # Of rows; keys are on the host.
    assert [_has(device, kind) for kind in ("ResourceGather", "ResourceScatterUpdate")] == [place == "device"] * 2


def test_unique_rows_and_their_gradients_cross_once(alone: Path) -> None:
    host, device = _sides(alone, "host")
    up, down = _floats(host), _floats(device)
    groups = 2
    # The row's embedding, without slots; what the step reads besides is three scalars.
    assert up.count("StridedSlice") == groups
    assert len(up) <= groups + 3
    # The numbers of the batch were sent before the step.
    assert "_Arg" not in up
    # For each group its gradient, scale and rate; the losses and the number of examples.
    assert len(down) <= 3 * groups + 2


def test_rows_on_a_device_stay_there(alone: Path) -> None:
    host, device = _sides(alone, "device")
    groups = 2
    # New rows alone, which the host makes.
    assert _floats(host).count("ConcatV2") == groups
    assert len(_floats(host)) <= groups + 3
    # The losses and the number of examples.
    assert sorted(_floats(device)) == ["SplitV", "StridedSlice"]


def _sides(folder: Path, place: str) -> list[dict[str, Any]]:
    found = json.loads((folder / f"{place}-0.json").read_text())
    return [found["CPU:0"], found["CPU:1"]]


def _has(side: dict[str, Any], kind: str) -> bool:
    return any(kind in operation for operation in side["operations"])


def _floats(side: dict[str, Any]) -> list[str]:
    """Returns the operations whose floats a side sends; a constant is an order, not a number."""
    return [operation for kind, operation in side["sent"] if kind == "float32" and operation != "Const"]


@pytest.mark.parametrize("place", PLACES)
def test_a_checkpoint_of_one_placement_starts_another(alone: Path, place: str) -> None:
    with np.load(alone / f"from-{place}.npz") as held:
        assert held["rows"][0] == held["rows"][1] > 100
        np.testing.assert_allclose(held["after"], held["before"], atol=1e-6)
        np.testing.assert_allclose(held["device"], held["host"], atol=1e-6)


@pytest.mark.parametrize("place", ["auto", "host"])
def test_without_a_gpu_the_host_has_everything(place: str) -> None:
    from sangam.trainer_module.placement import Placement, notes, take

    ranker = declared(dense_place=place)
    assert take(ranker, local_rank=0) == Placement()
    assert notes(ranker, Placement()) == []


def test_a_required_gpu_that_is_missing_is_a_mistake() -> None:
    from sangam.schemas.errors import UserError
    from sangam.trainer_module.placement import take

    with pytest.raises(UserError) as error:
        take(declared(dense_place="device"), local_rank=0)
    assert mentions(str(error.value), "training.dense_place ... no GPU ... sangam doctor ... auto")


def test_rows_that_a_device_would_hold_are_told_to_be_on_the_host() -> None:
    from sangam.trainer_module.placement import Placement, notes

    [note] = notes(declared(tables={"users": {"place": "device"}}), Placement())
    assert mentions(note, "tables.users.place ... no GPU ... host's memory")
    assert notes(declared(tables={"users": {"place": "device"}}), Placement("/GPU:0")) == []


def test_a_machine_has_a_gpu_for_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    from sangam.schemas.errors import UserError
    from sangam.trainer_module.placement import Placement, take

    taken: list[object] = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["first", "second"])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda device, kind: taken.append(device))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda device, grows: taken.append(grows))
    assert take(declared(), local_rank=1) == Placement("/GPU:0")
    assert taken == ["second", True]
    with pytest.raises(UserError) as error:
        take(declared(), local_rank=2)
    assert mentions(str(error.value), "rank 3 of a machine with 2 ... at most 2 ... dense_place: host")


def test_a_full_gpu_is_told_with_what_helps() -> None:
    import tensorflow as tf

    from sangam.trainer_module.placement import full_device

    ranker = declared(tables={"users": {"place": "device"}})
    message = "OOM when allocating tensor with shape[9,16] on /job:localhost/replica:0/task:0/device:GPU:0 by allocator"
    told = full_device(tf.errors.ResourceExhaustedError(None, None, message), ranker)
    assert told is not None
    assert mentions(
        told, "memory is full (got: OOM ...); declare place: host for users ... batch_size_per_rank (now 64)"
    )
    assert full_device(tf.errors.ResourceExhaustedError(None, None, "OOM on device:CPU:0"), ranker) is None
    assert full_device(tf.errors.InternalError(None, None, "GPU"), ranker) is None

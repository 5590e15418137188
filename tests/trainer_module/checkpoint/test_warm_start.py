"""Starting from another training's checkpoint: what is still declared is taken over, the rest is told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.derived.weights import dense_weights
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.dense.initial import initial
from tests.errors import place_and_value
from tests.trainer_module.checkpoint.sample_checkpoints import by_key
from tests.trainer_module.parameter_server.sample_servers import made_job, train_alone
from tests.trainer_module.sample_job import (
    FIRST_EVENT_S,
    NUM_EXAMPLES,
    declared,
    job,
    run_ranks,
    train_on,
    write_examples,
)

pytestmark = pytest.mark.processes
tf = pytest.importorskip("tensorflow")

DAYS = ("2024-02-28", "2024-02-29")
_LAYER = ("numbers/piecewise_linear_4_3/w", "numbers/piecewise_linear_4_3/b")
LENGTH = {"kind": "numeric", "normalize": "zscore"}
END_OF_BASE = FIRST_EVENT_S // 60
"""Minutes since 1970 of the end of the base's last day."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    from sangam.trainer_module import collectives

    collectives.start()
    return write_examples(tmp_path_factory.mktemp("data"))


def _changed(ranker: RankerSpec, **parts: Any) -> RankerSpec:
    """Returns a ranker with parts of its document replaced; None removes an entry."""
    document = ranker.model_dump(mode="json")
    for part, entries in parts.items():
        for name, entry in entries.items():
            document[part].pop(name, None)
            if entry is not None:
                document[part] = (
                    {name: entry, **document[part]} if part == "features" else {**document[part], name: entry}
                )
    return RankerSpec.model_validate_json(json.dumps(document))


def _trained(ranker: RankerSpec, files: tuple[str, ...], directory: Path):  # type: ignore[no-untyped-def]
    """Trains an epoch and writes a checkpoint; returns the trainer and the checkpoint."""
    from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
    from sangam.trainer_module.checkpoint.manifest import Manifest
    from sangam.trainer_module.checkpoint.writer import Contents, write
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.input.position import Position
    from sangam.trainer_module.input.train_input import no_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    (directory / "logs").mkdir(parents=True)
    trainer = InStepTrainer(Ranker(ranker), rank=0, ranks=1)
    batches = own_batches(ranker, files, epoch=0, rank=0, ranks=1)
    train_on(trainer, batches, Progress(job(directory, ranker, files), 0))
    manifest = Manifest(
        step=trainer.step,
        ranks=1,
        spec_digest="",
        job_digest="",
        seed=1,
        days=DAYS,
        position=Position(),
        groups=group_layouts(ranker),
        weights=weight_layouts(trainer.ranker.weights.weights),
    )
    write(directory / "c", Contents(manifest, trainer.snapshot(), no_batches(), b"{}", {}), 0, deadline_s=1.0)
    return trainer, directory / "c"


def _warm(  # type: ignore[no-untyped-def]
    checkpoint: Path, ranker: RankerSpec, *, rank: int = 0, ranks: int = 1, changed: tuple[str, ...] = ()
):
    from sangam.trainer_module.checkpoint.manifest import read_manifest
    from sangam.trainer_module.checkpoint.warm_start import warm_start
    from sangam.trainer_module.ranker import Ranker

    return warm_start(checkpoint, read_manifest(checkpoint), Ranker(ranker), rank=rank, ranks=ranks, changed=changed)


def _rows_by_id(keys: np.ndarray, rows: np.ndarray, tag: int) -> dict[int, bytes]:
    """Returns a table's rows, bit by bit, by the id in the low bits of the key."""
    return {int(key) & (2**52 - 1): row.tobytes() for key, row in zip(keys, rows, strict=True) if key >> 52 == tag}


@pytest.fixture(scope="module")
def base(files: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return _trained(declared(), files, tmp_path_factory.mktemp("base"))


def test_an_equal_spec_takes_over_everything(base: Any) -> None:
    trainer, checkpoint = base
    found = _warm(checkpoint, declared())
    assert (found.new, found.dropped) == ((), ())
    assert {"tables.posts", "tables.tags", "tables.users", "weights.experts/first/w"} <= set(found.loaded)
    expected = trainer.snapshot()
    assert found.snapshot.step == expected.step == trainer.step
    assert found.snapshot.dense.keys() == expected.dense.keys()
    for name, array in expected.dense.items():
        np.testing.assert_array_equal(found.snapshot.dense[name], array)
    for group in expected.groups:
        got, rows = by_key(found.snapshot.groups[group]), by_key(expected.groups[group])
        np.testing.assert_array_equal(got.keys, rows.keys)
        np.testing.assert_array_equal(got.rows, rows.rows)


def test_a_new_feature_and_table_move_tags_and_weights_but_lose_nothing(base: Any, files: tuple[str, ...]) -> None:
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    trainer, checkpoint = base
    wider = _changed(
        declared(),
        tables={"authors": {"dim": 8}},
        features={"author": {"kind": "id", "type": "int", "table": "authors"}, "length": LENGTH},
    )
    assert declared().table_tags()["users"] != wider.table_tags()["users"]
    found = _warm(checkpoint, wider)
    assert found.dropped == ()
    assert set(found.new) == {
        "tables.authors",
        *(
            f"weights.{weight}[{feature}]"
            for weight in ("experts/first/w", "expert_gates/w")
            for feature in ("author", "length")
        ),
    }
    before = trainer.snapshot().groups["adagrad_8"]
    after = by_key(found.snapshot.groups["adagrad_8"])
    for table in ("users", "posts"):
        old = _rows_by_id(before.keys, before.rows, declared().table_tags()[table])
        assert old
        assert _rows_by_id(after.keys, after.rows, wider.table_tags()[table]) == old
    assert len(after.keys) == len(before.keys)
    # With the new features at zero the wider model gives the very scores of the base.
    warm = InStepTrainer(Ranker(wider), rank=0, ranks=1)
    warm.restore(found.snapshot)
    batch = next(iter(_batches(files)))
    moved = batch | {name: _moved(batch[name], wider) for name in ("ids", "lists")}
    # `author` and `length` come before the features of the base.
    moved |= {name: tf.pad(moved[name], [[0, 0], [1, 0]]) for name in ("ids", "floats")}
    scores, expected = warm.predict(moved), trainer.predict(batch)
    for task, values in expected.items():
        np.testing.assert_allclose(scores[task], values, atol=1e-5)


def test_what_was_learned_of_a_feature_that_has_changed_starts_anew_and_is_told(base: Any) -> None:
    trainer, checkpoint = base
    found = _warm(checkpoint, declared(), changed=("age", "user"))
    blocks = [
        f"weights.{weight}[{name}" for weight in ("experts/first/w", "expert_gates/w") for name in ("age", "user")
    ]
    assert set(found.new) == {"tables.users", *(f"{block}]" for block in blocks)}
    assert set(found.dropped) == {"tables.users", *(f"{block} of the base]" for block in blocks)}
    assert "tables.users" not in found.loaded
    weight = next(each for each in dense_weights(declared()) if each.name == "experts/first/w")
    of_row = [name for name, size in weight.blocks[0] or () for _ in range(size)]
    changed = np.isin(of_row, ["age", "user"])
    before, start = trainer.snapshot().dense["weights/experts/first/w"], initial(weight, seed=1)
    after = found.snapshot.dense["weights/experts/first/w"]
    assert changed.sum() == 9
    np.testing.assert_array_equal(after, np.where(changed[:, None], start, before))
    assert not found.snapshot.dense["m/experts/first/w"][changed].any()
    rows = by_key(found.snapshot.groups["adagrad_8"])
    tags = declared().table_tags()
    assert _rows_by_id(rows.keys, rows.rows, tags["users"]) == {}
    kept = trainer.snapshot().groups["adagrad_8"]
    assert _rows_by_id(rows.keys, rows.rows, tags["posts"]) == _rows_by_id(kept.keys, kept.rows, tags["posts"])


def test_an_encoded_number_keeps_its_own_layer_until_it_changes(files: tuple[str, ...], tmp_path: Path) -> None:
    encoded = {"kind": "numeric", "encoding": {"kind": "piecewise_linear", "bins": 4, "dim": 3}}
    spec = _changed(declared(), features={"age": encoded})
    trainer, checkpoint = _trained(spec, files, tmp_path)
    wider = _changed(spec, features={"length": encoded})
    found, before = _warm(checkpoint, wider), trainer.snapshot().dense
    assert {each for each in found.new if "numbers" in each} == {f"weights.{name}[length]" for name in _LAYER}
    start = {weight.name: initial(weight, seed=1) for weight in dense_weights(wider)}
    for name in _LAYER:
        [kept], [moments] = before[f"weights/{name}"], before[f"m/{name}"]
        np.testing.assert_array_equal(found.snapshot.dense[f"weights/{name}"], [start[name][0], kept])
        np.testing.assert_array_equal(found.snapshot.dense[f"m/{name}"], [np.zeros_like(kept), moments])
        assert moments.any()
    assert not [name for name in _warm(checkpoint, spec, changed=("age",)).snapshot.dense if "numbers" in name]


def _batches(files: tuple[str, ...]) -> Any:
    from sangam.trainer_module.input.local_reader import own_batches

    return own_batches(declared(), files, epoch=0, rank=0, ranks=1)


def _moved(column: Any, ranker: RankerSpec) -> Any:
    """Returns keys as Transform would make them for another spec."""
    name_of = {tag: table for table, tag in declared().table_tags().items()}
    keys = [
        (key & (2**52 - 1)) | (ranker.table_tags()[name_of[key >> 52]] << 52) for key in column.numpy().ravel().tolist()
    ]
    return tf.reshape(tf.constant(keys, tf.int64), column.shape)


def test_a_new_task_keeps_the_gates_of_the_others(base: Any) -> None:
    trainer, checkpoint = base
    found = _warm(checkpoint, _changed(declared(), tasks={"abandon": {"kind": "binary"}}))
    # The new task is the last one: its gate's columns stand behind those of `like` and `watch`.
    assert {"weights.expert_gates/w[abandon]", "weights.expert_gates/b[abandon]", "weights.heads/abandon/w"} <= set(
        found.new
    )
    before, after = trainer.snapshot().dense, found.snapshot.dense
    for moment in ("weights", "m", "v"):
        old = before[f"{moment}/expert_gates/w"]
        np.testing.assert_array_equal(after[f"{moment}/expert_gates/w"][:, : old.shape[1]], old)
        np.testing.assert_array_equal(after[f"{moment}/heads/like/w"], before[f"{moment}/heads/like/w"])
        assert f"{moment}/heads/abandon/w" not in after
    assert np.all(after["m/expert_gates/w"][:, -2:] == 0)
    assert np.any(after["weights/expert_gates/w"][:, -2:] != 0)


def test_a_warm_start_begins_the_schedule_anew_and_keeps_moments_and_the_balance(
    files: tuple[str, ...], tmp_path: Path
) -> None:
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    settings: dict[str, Any] = {
        "dense_optimizer": {"kind": "adagrad", "learning_rate": 0.01, "initial_accumulator": 0.25},
        "loss_balance": {"kind": "gradnorm"},
        "schedule": {"kind": "cosine", "decay_steps": 5},
    }
    trainer, checkpoint = _trained(declared(**settings), files, tmp_path)
    wider = _changed(declared(**settings), features={"length": LENGTH})
    accumulators = _warm(checkpoint, wider).snapshot.dense["a/experts/first/w"]
    np.testing.assert_array_equal(accumulators[0], 0.25)
    assert (accumulators[1:] > 0.25).any()
    found = _warm(checkpoint, declared(**settings)).snapshot
    for task in ("like", "watch"):
        np.testing.assert_array_equal(found.extra[f"gradnorm_{task}"], trainer.snapshot().extra[f"gradnorm_{task}"])
    batches = list(own_batches(declared(**settings), files, epoch=0, rank=0, ranks=1))[:1]

    def moves(snapshot: Any) -> bool:
        again = InStepTrainer(Ranker(declared(**settings)), rank=0, ranks=1)
        again.restore(snapshot)
        train_on(again, batches, Progress(job(tmp_path, declared(), files), 0))
        after = again.snapshot().dense
        return any(not np.array_equal(after[name], snapshot.dense[name]) for name in after if name[0] == "w")

    # Resumed it stays at the cosine's floor, which is 0.
    assert not moves(trainer.snapshot())
    assert moves(found)


def test_what_is_no_longer_declared_is_dropped_and_told(base: Any) -> None:
    _, checkpoint = base
    narrower = _changed(declared(), tables={"tags": None}, features={"tags": None, "age": None}, tasks={"watch": None})
    found = _warm(checkpoint, narrower)
    assert found.new == ()
    assert {
        "tables.tags",
        "weights.experts/first/w[tags]",
        "weights.experts/first/w[age]",
        "weights.expert_gates/b[watch]",
        "weights.heads/watch/w",
    } <= set(found.dropped)
    assert "adagrad_4" not in found.snapshot.groups


def test_layers_of_another_width_start_anew(base: Any) -> None:
    _, checkpoint = base
    document = declared().model_dump(mode="json")
    document["model"]["tower_units"] = [12]
    found = _warm(checkpoint, RankerSpec.model_validate_json(json.dumps(document)))
    changed = {
        f"weights.{part}"
        for task in ("like", "watch")
        for part in (f"towers/{task}/0/w", f"towers/{task}/0/b", f"heads/{task}/w")
    }
    assert set(found.new) == set(found.dropped) == changed
    assert "weights.heads/like/b" in found.loaded


def test_an_ensemble_keeps_the_matrices_of_a_base_without_and_the_members_that_both_have(
    base: Any, files: tuple[str, ...], tmp_path: Path
) -> None:
    def ensemble(members: int) -> RankerSpec:
        return _changed(declared(), model={"ensemble": {"members": members}})

    plain = base[0].snapshot().dense
    found = _warm(base[1], ensemble(2))
    name = "experts/first/w"
    np.testing.assert_array_equal(found.snapshot.dense[f"weights/{name}"], plain[f"weights/{name}"])
    assert {f"weights.{name}/r", f"weights.{name}/s", "weights.experts/first/b"} <= set(found.new)
    assert not {f"weights/{name}/r", "weights/experts/first/b"} & found.snapshot.dense.keys()

    trainer, checkpoint = _trained(ensemble(2), files, tmp_path)
    two = trainer.snapshot().dense
    found = _warm(checkpoint, ensemble(3))
    start = {weight.name: initial(weight, 1) for weight in dense_weights(ensemble(3))}
    for weight in (f"{name}/r", f"{name}/s", "experts/first/b"):
        three = found.snapshot.dense[f"weights/{weight}"]
        np.testing.assert_array_equal(three[:2], two[f"weights/{weight}"])
        np.testing.assert_array_equal(three[2], start[weight][2])
        assert not np.array_equal(three[:2], start[weight][:2])
        assert f"weights.{weight}[members/2]" in found.new
    fewer = _warm(checkpoint, declared())
    np.testing.assert_array_equal(fewer.snapshot.dense[f"weights/{name}"], two[f"weights/{name}"])
    assert {f"weights.{name}/r", f"weights.{name}/s"} <= set(fewer.dropped)


def test_a_table_that_begins_to_keep_books_takes_the_end_of_the_base_and_one_that_ceases_drops_them(
    base: Any, files: tuple[str, ...], tmp_path: Path
) -> None:
    trainer, checkpoint = base
    expiring = declared(tables={"users": {"expire_after_days": 3}}, event_time="time")
    group = by_key(_warm(checkpoint, expiring).snapshot.groups["adagrad_8"])
    plain = by_key(trainer.snapshot().groups["adagrad_8"])
    np.testing.assert_array_equal(group.rows[:, :-2], plain.rows)
    books = group.rows[:, -2:].copy().view(np.int32)
    np.testing.assert_array_equal(books, np.tile([END_OF_BASE, 1], (len(books), 1)))

    with_books, checkpoint = _trained(expiring, files, tmp_path)
    kept = by_key(with_books.snapshot().groups["adagrad_8"])
    assert kept.rows[:, -2].copy().view(np.int32).max() == FIRST_EVENT_S // 60 + NUM_EXAMPLES - 1
    same = by_key(_warm(checkpoint, expiring).snapshot.groups["adagrad_8"])
    np.testing.assert_array_equal(same.rows.view(np.uint32), kept.rows.view(np.uint32))
    without = by_key(_warm(checkpoint, declared()).snapshot.groups["adagrad_8"])
    np.testing.assert_array_equal(without.rows, kept.rows[:, :-2])


def test_the_ranks_share_the_rows_and_ids_in_waiting_keep_their_counts(files: tuple[str, ...], tmp_path: Path) -> None:
    waiting = declared(tables={"users": {"admission": {"kind": "count", "at_least": 20, "counters": 1024}}})
    trainer, checkpoint = _trained(waiting, files, tmp_path)
    parts = [by_key(_warm(checkpoint, waiting, rank=rank, ranks=2).snapshot.groups["adagrad_8"]) for rank in range(2)]
    whole = trainer.snapshot().groups["adagrad_8"]
    keys = np.concatenate([part.keys for part in parts])
    assert min(len(part.keys) for part in parts) > 10
    assert sorted(keys) == sorted(whole.keys)
    for part in parts:
        np.testing.assert_array_equal(part.extra["sketch_cells"], whole.extra["sketch_cells"])
        assert set(part.extra) == {"sketch_cells", "sketch_added"}


@pytest.mark.parametrize(
    ("table", "place", "value"),
    [
        (
            {"dim": 16},
            "tables.users.dim",
            "(got 16; ... has 8)",
        ),
        (
            {"dim": 8, "optimizer": {"kind": "ftrl", "learning_rate": 0.1}},
            "tables.users.optimizer.kind",
            "(got ftrl",
        ),
    ],
)
def test_a_table_of_the_same_name_with_other_rows_is_refused(
    base: Any, table: dict[str, Any], place: str, value: str
) -> None:
    _, checkpoint = base
    with pytest.raises(CheckpointError, match=place_and_value(place, value)):
        _warm(checkpoint, _changed(declared(), tables={"users": table}))


@pytest.mark.long
def test_a_job_goes_on_from_the_final_checkpoint_of_another_with_other_ranks(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    first = run_ranks(tmp_path / "first", declared(ranks=2, batch_size_per_rank=32), files)
    train_alone(made_job(tmp_path / "second", declared(ranks=1), files, base=tmp_path / "first" / "final"))
    second = np.load(tmp_path / "second" / "output" / "losses.npy")
    assert second[0].sum() < first[0].sum() / 2
    report = json.loads((tmp_path / "second" / "output" / "training.json").read_text())
    assert (report["warm_start"]["base_step"], report["checkpoint"]["final_step"]) == (len(first), 2 * len(first))
    assert (report["warm_start"]["new"], report["resumed_from_step"]) == ([], [])

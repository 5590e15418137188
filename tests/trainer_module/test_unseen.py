"""Occurrences of ids that training reads as unseen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.example_files import file_name
from sangam.schemas.spec import RankerSpec
from tests.trainer_module.sample_job import declared, job, write_days, write_examples

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

RATES = {"post": 0.3, "history": 0.6}


def _unseen(ranker: RankerSpec, rates: dict[str, float] = RATES, seed: int = 1) -> Any:
    from sangam.trainer_module.input.batch import Layout
    from sangam.trainer_module.unseen import UnseenIds

    return UnseenIds(Layout(ranker), rates, seed)


def _applied(unseen: Any, batch: Any, epoch: int = 0) -> dict[str, np.ndarray]:
    applied = unseen.applied(batch, tf.constant(epoch, tf.int64))
    return {name: applied[name].numpy() for name in ("ids", "lists")}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    from sangam.trainer_module import collectives

    collectives.start()
    return write_examples(tmp_path_factory.mktemp("data"), num_files=2)


def _batches(ranker: RankerSpec, files: tuple[str, ...]) -> list[Any]:
    from sangam.trainer_module.input.local_reader import own_batches

    return list(own_batches(ranker, files, epoch=0, rank=0, ranks=1))


@pytest.fixture(scope="module")
def whole(files: tuple[str, ...]) -> Any:
    return _batches(declared(batch_size_per_rank=1003), files)[0]


def test_each_feature_loses_its_share_of_ids_and_the_others_none(whole: Any) -> None:
    ranker = declared()
    unseen = _unseen(ranker)
    layout, read = unseen._layout, _applied(unseen, whole)
    of_user, of_post = (layout.all_ids.index(name) for name in ("user", "post"))
    ids, lists = whole["ids"].numpy(), whole["lists"].numpy()
    np.testing.assert_array_equal(read["ids"][:, of_user], ids[:, of_user])
    kept = read["ids"][:, of_post] != 0
    assert abs((~kept).mean() - 0.3) < 0.05
    np.testing.assert_array_equal(read["ids"][kept, of_post], ids[kept, of_post])
    ends = np.cumsum(whole["lengths"].numpy().sum(1))
    parts = dict(zip(layout.all_lists, np.split(read["lists"], ends[:-1]), strict=True))
    before = dict(zip(layout.all_lists, np.split(lists, ends[:-1]), strict=True))
    np.testing.assert_array_equal(parts["tags"], before["tags"])
    assert abs((parts["history"] == 0).mean() - 0.6) < 0.05
    np.testing.assert_array_equal(parts["history"], np.where(parts["history"] == 0, 0, before["history"]))


def test_draws_are_of_the_example_alone_whatever_batch_it_is_in(files: tuple[str, ...], whole: Any) -> None:
    unseen = _unseen(declared())
    small = [_applied(unseen, batch) for batch in _batches(declared(batch_size_per_rank=60), files)]
    read = _applied(unseen, whole)
    np.testing.assert_array_equal(np.concatenate([each["ids"] for each in small]), read["ids"])
    assert sum((each["lists"] == 0).sum() for each in small) == (read["lists"] == 0).sum()


def test_epochs_and_seeds_draw_others(whole: Any) -> None:
    ranker = declared()
    of_post = _unseen(ranker)._layout.all_ids.index("post")
    drawn = [
        _applied(_unseen(ranker, seed=seed), whole, epoch)["ids"][:, of_post] == 0
        for seed, epoch in ((1, 0), (1, 1), (2, 0))
    ]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs((drawn[one] & drawn[other]).mean() - 0.09) < 0.04


def test_a_batch_without_examples_has_none_to_draw(whole: Any) -> None:
    from sangam.trainer_module.input.batch import empty_batch

    unseen = _unseen(declared())
    read = _applied(unseen, empty_batch(unseen._layout))
    assert read["ids"].shape == (0, 2)
    assert read["lists"].shape == (0,)


def test_without_a_share_keys_are_read_as_before(whole: Any) -> None:
    from sangam.trainer_module.input.batch import ids_of

    unseen = _unseen(declared(), {"post": 0.0})
    assert unseen.read(whole).keys() == ids_of(whole).keys()
    assert unseen.applied(whole, tf.constant(0, tf.int64)) is whole


def test_a_step_equals_one_on_examples_without_those_ids(files: tuple[str, ...], whole: Any) -> None:
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    plain = declared()
    shared = declared(tables={"posts": {"unseen": 0.4}})
    rankers = Ranker(shared), Ranker(plain)
    assert rankers[0].unseen.rates == {"post": 0.4, "history": 0.4}
    batches = _batches(plain, files)[:3]
    gone = [batch | rankers[0].unseen.applied(batch, tf.constant(2, tf.int64)) for batch in batches]
    states = []
    for ranker, given in zip(rankers, (batches, gone), strict=True):
        trainer = InStepTrainer(ranker, rank=0, ranks=1)
        trainer.begin_epoch(2)
        results = list(trainer.steps(given))
        scores = trainer.predict(whole)  # Nothing is drawn, and many of its ids have no row.
        states.append((trainer.snapshot(), [result.losses_T.numpy() for result in results], scores))
    (one, losses, scores), (other, expected, expected_scores) = states
    np.testing.assert_array_equal(losses, expected)
    for task, of_task in scores.items():
        np.testing.assert_array_equal(of_task, expected_scores[task])
    for name, array in one.dense.items():
        np.testing.assert_array_equal(array, other.dense[name])
    for group, rows in one.groups.items():
        np.testing.assert_array_equal(rows.keys, other.groups[group].keys)
        np.testing.assert_array_equal(rows.rows, other.groups[group].rows)


def test_new_ids_are_those_that_no_feature_of_the_table_had() -> None:
    from sangam.trainer_module.loop.unseen import Shares

    shares = Shares({"post": "posts", "history": "posts", "user": "users"})
    shares.see("posts", np.array([1, 2, 2, 3]))
    shares.see("posts", np.array([4]))
    shares.count({"post": np.array([1, 4, 9, 0]), "history": np.array([9, 9, 3, 8]), "user": np.array([7])})
    shares.count({"post": np.array([5]), "history": np.array([1]), "user": np.array([7])})
    assert shares.rates() == {"post": 0.5, "history": 0.6, "user": 0.9}
    shares.end_day()
    shares.count({"post": np.array([9, 9, 9, 5]), "user": np.array([7, 7])})
    assert shares.rates() == {"post": 0.25, "history": 0.6, "user": 0.5}


def test_a_sample_of_ids_stands_for_all() -> None:
    from sangam.trainer_module.loop.unseen import Shares

    shares = Shares({"post": "posts"}, one_in=10)
    shares.see("posts", np.arange(1, 60_000))
    shares.count({"post": np.arange(30_000, 90_000)})
    assert shares.rates() == {"post": 0.5}


@pytest.mark.parametrize("by", ["validation", "days"])
def test_auto_measures_the_newest_days_each_against_all_before_it(tmp_path: Path, by: str) -> None:
    from sangam.trainer_module.loop.unseen import keys_of, settle

    ranker = declared(tables={"users": {"unseen": "auto"}, "posts": {"unseen": "auto"}, "tags": {"unseen": 0.25}})
    days = ("2024-03-01", "2024-03-02", "2024-03-03")
    written = write_examples(tmp_path, num_files=3, num_examples=60)
    files = tuple(str(tmp_path / file_name(day, number, 0)) for number, day in enumerate(days))
    for file, of_day in zip(written, files, strict=True):
        Path(file).rename(of_day)
    made = job(tmp_path, ranker, files).model_copy(update={"days": days, "validation_files": ()})
    if by == "validation":
        made = made.model_copy(update={"train_files": files[:1], "validation_files": files[1:], "days": days[:1]})
    found = settle(made, rank=0)
    layout, names = _unseen(ranker)._layout, ("user", "post", "history")
    table = {"user": "users", "post": "posts", "history": "posts"}
    seen: dict[str, set[int]] = {"users": set(), "posts": set()}
    new, of_all = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for number, file in enumerate(files):
        keys = {name: [] for name in names}  # type: dict[str, list[int]]
        for batch in _batches(ranker, (file,)):
            for name, found_keys in keys_of(layout, batch, names).items():
                keys[name] += found_keys.tolist()
        for name in names if number else ():
            new[name] += sum(key not in seen[table[name]] for key in keys[name])
            of_all[name] += len(keys[name])
        for name in names:
            seen[table[name]] |= set(keys[name])
    expected = {name: new[name] / of_all[name] for name in names}
    assert min(expected.values()) > 0.01
    assert found.rates == pytest.approx({**expected, "tags": 0.25}, abs=1e-4)
    assert "auto measured" in found.note


def test_one_day_alone_measures_nothing_and_says_so(tmp_path: Path) -> None:
    from sangam.trainer_module.loop.unseen import settle

    ranker = declared(tables={"posts": {"unseen": "auto"}})
    files = write_days(tmp_path / "data", ("2024-03-01",))
    made = job(tmp_path, ranker, files).model_copy(update={"days": ("2024-03-01",), "validation_files": ()})
    found = settle(made, rank=0)
    assert found.rates == {}
    assert "declare a share" in found.note

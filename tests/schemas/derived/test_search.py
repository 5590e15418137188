"""The search that `tune: auto` prepares."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.search import AS_DECLARED, PreparedSearch, search_of
from sangam.schemas.loading import load_spec, parse_spec
from sangam.schemas.loading.documents import check_document, whole, with_values
from sangam.schemas.loading.tuning_ranges import changes, ends
from sangam.schemas.spec.tuning import Choice, FloatRange, Together
from tests.paths import SPECS
from tests.schemas.sample_specs import changed, write

SHIPPED = sorted(SPECS.glob("*.yaml"))


def _prepared(folder: Path, changes_of_spec: dict[str, Any], tune: Any = "auto") -> PreparedSearch:
    document = changed({"data.validation_days": 1, "tasks.stars": {"kind": "binary"}, **changes_of_spec})
    document["gates"] = document["gates"][:1]
    spec = load_spec(write(folder / "spec.yaml", {**document, "tune": tune}))
    assert spec.tune
    return search_of(spec, spec.tune)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_prepared_value_gives_a_valid_spec(tmp_path: Path, path: Path) -> None:
    text = path.read_text().split("\ntune:")[0].replace("  train_days:", "  validation_days: 1\n  train_days:")
    (tmp_path / "spec.yaml").write_text(f"{text}\ntune: auto\n")
    spec, document, _ = parse_spec(tmp_path / "spec.yaml")
    assert spec.tune
    search, defaults = search_of(spec, spec.tune), whole(spec)
    own = with_values({key: value for key, value in document.items() if key != "tune"}, defaults, search.changes)
    for key, range_ in search.tune.ranges.items():
        for _, value in ends(range_):
            found = check_document(with_values(own, defaults, changes({key: value}, {key: range_})))
            assert not isinstance(found, list), (key, value, found)
    for start in search.starts:
        found = check_document(with_values(own, defaults, changes(start, search.tune.ranges)))
        assert not isinstance(found, list), (start, found)


def test_a_prepared_search_has_an_hour_and_halves_successively(tmp_path: Path) -> None:
    tune = _prepared(tmp_path, {}).tune
    assert (tune.minutes, tune.trials, tune.pruning and tune.pruning.kind) == (60.0, None, "successive_halving")
    tune = _prepared(tmp_path, {}, {"auto": True, "trials": 7, "pruning": {"kind": "median"}}).tune
    assert (tune.minutes, tune.trials, tune.pruning and tune.pruning.kind) == (None, 7, "median")


def test_the_best_spec_trains_on_the_newest_rows_too_unless_negatives_are_sampled(tmp_path: Path) -> None:
    def stopping(changes: dict[str, Any]) -> Any:
        return _prepared(tmp_path, changes).changes["training.early_stopping"]

    assert stopping({}) == {"patience": 2, "refit": True}
    assert stopping({"tasks.stars.calibration": {"kind": "platt"}}) == {"patience": 2, "refit": True}
    assert stopping({"tasks.stars.keep_negatives": 0.5}) == {"patience": 2, "refit": False}
    for held_out in ({"fraction": 0.1}, "c/*"):
        splits = {"train": "a/*", "eval": "b/*", "validation": held_out}
        assert not stopping({"data": {"kind": "splits", "format": "parquet", "splits": splits}})["refit"]
    tenth = {"fraction": 0.1}
    table = {"kind": "table", "format": "parquet", "pattern": "a.parquet", "eval": tenth, "validation": tenth}
    assert not stopping({"data": table})["refit"]
    assert stopping({"data": table | {"time": "at"}})["refit"]


def test_learning_rates_are_searched_around_those_of_the_spec(tmp_path: Path) -> None:
    ranges = _prepared(tmp_path, {}).tune.ranges
    assert ranges["training.dense_optimizer.learning_rate"] == FloatRange(kind="float", low=0.0025, high=0.04, log=True)
    rows = ranges["rows"]
    assert isinstance(rows, Together)
    assert rows.values == {
        AS_DECLARED: {},
        "slow": {"training.embedding_optimizer.learning_rate": 0.025},
        "fast": {"training.embedding_optimizer.learning_rate": 0.4},
        "slow adam": {"training.embedding_optimizer": {"kind": "adam", "learning_rate": 0.0005}},
        "adam": {"training.embedding_optimizer": {"kind": "adam", "learning_rate": 0.002}},
        "fast adam": {"training.embedding_optimizer": {"kind": "adam", "learning_rate": 0.008}},
    }


def test_a_range_of_ones_own_takes_the_place_of_the_set_that_changes_the_same(tmp_path: Path) -> None:
    own = {"kind": "float", "low": 0.01, "high": 0.5, "log": True}
    path = "training.embedding_optimizer.learning_rate"
    ranges = _prepared(tmp_path, {}, {"auto": True, "ranges": {path: own}}).tune.ranges
    assert "rows" not in ranges
    assert isinstance(ranges[path], FloatRange)


def test_no_start_is_tried_twice(tmp_path: Path) -> None:
    more = {f"features.id_{n}": {"kind": "id", "type": "int", "table": "numbers"} for n in range(3)}
    starts = _prepared(tmp_path, {**more, "tables.numbers": {"dim": 4}}).starts
    assert all(start not in starts[:number] for number, start in enumerate(starts))


def test_what_the_spec_declares_is_among_the_values(tmp_path: Path) -> None:
    model = {"kind": "ple", "dropout": 0.2, "ensemble": {"members": 3}, "interaction": {"kind": "dcn_v2"}}
    ranges = _prepared(tmp_path, {"model": model, "training.batch_size_per_rank": 100}).tune.ranges
    assert ranges["training.batch_size_per_rank"] == Choice(kind="choice", values=(100, 128, 256, 512, 1024))
    assert ranges["model.dropout"] == Choice(kind="choice", values=(0.0, 0.1, 0.2, 0.3))
    ensemble, architecture = ranges["model.ensemble"], ranges["architecture"]
    assert isinstance(ensemble, Choice)
    assert isinstance(architecture, Together)
    assert ensemble.values[0] == {"members": 3}
    assert architecture.values[AS_DECLARED] == {}
    # The other choices of the model are still the spec's under another architecture.
    shared_bottom = architecture.values["shared bottom"]["model"]
    assert isinstance(shared_bottom, dict)
    assert shared_bottom["interaction"]
    assert shared_bottom["ensemble"] == {"members": 3}


def test_a_chain_of_tasks_keeps_its_architecture(tmp_path: Path) -> None:
    model = {"kind": "esmm", "chain": ["like", "stars"]}
    ranges = _prepared(tmp_path, {"model": model}).tune.ranges
    assert "architecture" not in ranges
    assert {"interaction", "model.dropout", "model.ensemble"} <= ranges.keys()


def test_pairs_of_few_ids_are_crossed_and_of_many_not(tmp_path: Path) -> None:
    crosses = _prepared(tmp_path, {}).tune.ranges["crosses"]
    assert isinstance(crosses, Together)
    assert crosses.values["all pairs"] == {
        "tables.user_friend": {"dim": 4},
        "features.user_friend": {
            "kind": "cross",
            "columns": {"user_id": "string", "friend": "string"},
            "table": "user_friend",
            "missing_row": True,
        },
    }
    assert crosses.values["fast pairs"]["tables.user_friend"] == {
        "dim": 4,
        "optimizer": {"kind": "adam", "learning_rate": 0.1},
    }
    numbers = _prepared(tmp_path, {}).tune.ranges["number_crosses"]
    assert isinstance(numbers, Together)
    assert numbers.values["age"]["features.friend_age"] == {
        "kind": "cross",
        "columns": {"friend": "string", "age": "float"},
        "table": "friend_age",
        "missing_row": True,
    }
    more = {f"features.id_{n}": {"kind": "id", "type": "int", "table": "numbers"} for n in range(3)}
    ranges = _prepared(tmp_path, {**more, "tables.numbers": {"dim": 4}}).tune.ranges
    assert not {"crosses", "number_crosses"} & ranges.keys()


def test_whatever_is_one_number_is_encoded_unless_it_is_normalized_by_hand(tmp_path: Path) -> None:
    features = {
        "features.views": {"kind": "count", "by": {"user_id": "string"}, "days": 3},
        "features.binned": {"kind": "numeric"},
    }
    encoding = _prepared(tmp_path, features).tune.ranges["encoding"]
    assert isinstance(encoding, Together)
    assert set(encoding.values["periodic"]) == {"features.binned.encoding", "features.views.encoding"}


def test_a_range_of_ones_own_replaces_the_prepared_one(tmp_path: Path) -> None:
    own = {"kind": "float", "low": 0.0, "high": 0.5}
    ranges = _prepared(tmp_path, {}, {"auto": True, "ranges": {"model.dropout": own}}).tune.ranges
    assert ranges["model.dropout"] == FloatRange(kind="float", low=0.0, high=0.5)
    assert "model.ensemble" in ranges

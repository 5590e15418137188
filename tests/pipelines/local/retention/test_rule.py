"""What a rule lets go of a root, and what it never does."""

import datetime
import math
from dataclasses import replace
from pathlib import Path

import pytest

from sangam.pipelines.local.retention.inventory import Version
from sangam.pipelines.local.retention.rule import decide, newest_train_day
from sangam.schemas.spec.keep import Keep
from tests.pipelines.local.retention.sample_root import (
    ROOT,
    SampleRoot,
    day,
    grown,
    left,
    model,
    output,
    outputs,
    run,
    version,
)
from tests.schemas.sample_specs import loaded

KEEP = Keep(runs=5, models=3, checkpoints=2)


def test_a_hundred_daily_runs_stay_bounded() -> None:
    root, sizes = SampleRoot(), set()
    for number in range(100):
        decided = decide(KEEP, root.add(number).there)
        root.apply(decided)
        there = root.there
        if number > 10:
            sizes.add((len(there.runs), len(there.outputs), len(there.versions[0]), len(there.days)))
    # Five runs with lists and graphs, three models, two checkpoints; the days that five runs read.
    assert sizes == {(5, 5 + 5 + 3 + 2, 3, 7)}
    assert there.runs[0].name == run(99)


@pytest.mark.parametrize("kind", ["runs", "models", "checkpoints"])
def test_what_is_not_limited_stays(kind: str) -> None:
    decided = decide(Keep(**{kind: 2}), grown(6).there)
    gone = {decision.kind for decision in decided if not decision.stays}
    expected = {"runs": {"run", "output", "examples"}, "models": {"model", "version"}, "checkpoints": {"checkpoint"}}
    assert gone == expected[kind]


def test_the_newest_blessed_models_stay_though_all_runs_after_them_were_refused() -> None:
    there = grown(12, refused=frozenset(range(4, 12))).there
    decided = decide(Keep(runs=2, models=2, checkpoints=2), there)
    # Blessed: 2 and 3. Refused and trained last, which a person may still bless: 10 and 11.
    assert left(decided, "model") == ["2", "3", "10", "11"]
    assert left(decided, "checkpoint") == ["2", "3", "10", "11"]
    assert left(decided, "version") == [version(2), version(3)]
    graphs = [each for each in decided if each.kind == "output" and each.stays and "transform_graph" in str(each.path)]
    # Incremental training reads the graph of its base.
    assert [each.path.name for each in graphs] == ["2", "3", "10", "11"]


def test_after_a_rollback_the_two_before_stay() -> None:
    root = grown(6)
    folder = ROOT / "serving" / "tiny"
    versions = [Version(folder / version(number)) for number in range(4)]
    versions += [Version(folder / "withdrawn" / version(number), is_withdrawn=True) for number in (4, 5)]
    blessed = tuple(model(number, is_withdrawn=number > 3) for number in range(6))
    there = replace(root.there, versions=(tuple(versions),), blessed=blessed)
    decided = decide(Keep(models=2, checkpoints=2), there)
    assert [name for name in left(decided, "version")] == [version(2), version(3), version(4), version(5)]
    assert left(decided, "model") == ["2", "3", "4", "5"]
    assert set(left(decided, "checkpoint")) >= {"2", "3"}


def test_a_withdrawn_version_goes_once_older_ones_are_gone() -> None:
    root = grown(6)
    withdrawn = Version(ROOT / "serving" / "tiny" / "withdrawn" / "20240301002", is_withdrawn=True)
    there = replace(root.there, versions=((*root.there.versions[0], withdrawn),))
    decided = decide(Keep(models=2), there)
    assert left(decided, "version") == [version(4), version(5)]


def test_checkpoints_that_know_the_next_dates_train_days_do_not_count() -> None:
    # With a refit each model has learned from the newest train day of the next date.
    blessed = tuple(model(number, days_behind=0) for number in range(6))
    there = replace(grown(6).there, blessed=blessed)
    there = replace(there, outputs=tuple(outputs(0) + outputs(1) + outputs(2) + outputs(3) + outputs(4) + outputs(5)))
    plain = decide(Keep(checkpoints=2), there)
    assert left(plain, "checkpoint") == ["4", "5"]
    refit = decide(Keep(checkpoints=2), there, next_train_day=day(5))
    assert left(refit, "checkpoint") == ["3", "4", "5"]


def test_the_next_date_is_the_one_after_the_newest(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"data.validation_days": 1})
    # The next date is the 6th: evaluated on; the 5th is for validation.
    assert newest_train_day(spec, ["2024-03-05", "2024-03-02"]) == "2024-03-04"
    assert newest_train_day(spec, []) == ""


def test_the_base_of_the_newest_run_stays() -> None:
    there = replace(grown(8).there, last_base=str(output("trainer", "checkpoint", 1)))
    assert left(decide(Keep(checkpoints=2), there), "checkpoint") == ["1", "6", "7"]


def test_what_online_training_goes_on_from_stays() -> None:
    root = grown(8)
    versions = tuple(replace(each, is_online=each.path.name == version(1)) for each in root.there.versions[0])
    there = replace(root.there, versions=(versions,), lineages=frozenset({version(1)}))
    decided = decide(Keep(runs=2, models=2, checkpoints=2), there)
    assert left(decided, "version") == [version(1), version(6), version(7)]
    assert left(decided, "model") == left(decided, "checkpoint") == ["1", "6", "7"]
    kept = {decision.path for decision in decided if decision.stays}
    assert output("transform", "transform_graph", 1) in kept


def test_an_output_that_a_newer_run_took_from_the_cache_stays_with_it() -> None:
    root = grown(6)
    shared = replace(root.there.outputs[0], runs=frozenset({run(0), run(5)}))
    there = replace(root.there, outputs=(shared, *root.there.outputs[1:]))
    decided = decide(Keep(runs=1), there)
    kept = {decision.path for decision in decided if decision.stays}
    assert shared.path in kept
    # So do the days that it names: whoever takes it from the cache reads them.
    assert ROOT / "examples" / day(0) in kept


def test_the_newest_run_that_succeeded_stays_however_many_failed_after_it() -> None:
    decided = decide(Keep(runs=2), replace(grown(6).there, last_good=run(1)))
    assert left(decided, "run") == [run(5), run(4), run(1)]
    kept = {decision.path for decision in decided if decision.stays}
    assert output("example_gen", "examples", 1) in kept


def test_another_rankers_outputs_are_let_alone() -> None:
    root = grown(4)
    other = replace(outputs(0)[0], path=ROOT / "x", runs=frozenset({"other"}))
    shared = replace(root.there.outputs[0], runs=frozenset({run(0), "other"}))
    there = replace(root.there, outputs=(other, shared), foreign_runs=frozenset({"other"}))
    decided = decide(Keep(runs=1), there)
    assert [each.path for each in decided if each.kind == "output" and not each.stays] == []


def test_trainings_that_may_run_stay_and_of_the_others_the_newest() -> None:
    trainings = {ROOT / name: name == "a" for name in "abcd"}
    decided = decide(Keep(checkpoints=2), replace(grown(1).there, trainings=trainings))
    assert left(decided, "training") == ["a", "b"]


def test_trials_and_logs_go_with_the_runs_of_their_time() -> None:
    def noon(number: int) -> float:
        return datetime.datetime.fromisoformat(f"{day(number)}T12:00:00+00:00").timestamp()

    searches = {ROOT / "a" / "trials": noon(1), ROOT / "b" / "trials": noon(5), ROOT / "c" / "trials": math.inf}
    logs = {ROOT / "1.log": noon(1), ROOT / "5.log": noon(5)}
    decided = decide(Keep(runs=2), replace(grown(6).there, searches=searches, logs=logs))
    assert [each.path.parent.name for each in decided if each.kind == "trials" and each.stays] == ["b", "c"]
    assert left(decided, "log") == ["5.log"]


def test_what_a_search_under_way_reads_stays() -> None:
    graph = output("transform", "transform_graph", 0)
    there = replace(grown(4).there, searched=frozenset({str(graph), str(output("example_gen", "examples", 1) / "f")}))
    kept = {each.path for each in decide(Keep(runs=1), there) if each.stays}
    assert {graph, output("example_gen", "examples", 1)} <= kept

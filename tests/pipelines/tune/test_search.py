"""A search's bookkeeping: order, resuming, pruning, failures; the trainings are pretended."""

from pathlib import Path

import pytest

from sangam.pipelines.tune.records import Objective, best_of
from sangam.schemas.spec import Spec
from tests.errors import mentions, tells
from tests.pipelines.tune.fake_training import RANGES, PretendedTraining, Start, auc, go_on, request, study_of

RATE = "training.dense_optimizer.learning_rate"


def _killed_at(number: int) -> Start:
    def start(trial: int, spec: Spec) -> PretendedTraining:
        if trial == number:
            raise SystemExit
        return PretendedTraining(spec)

    return start


def test_the_first_trial_is_the_spec_as_it_is(tmp_path: Path) -> None:
    search = request(tmp_path)
    made = go_on(search, study_of(search))
    assert [trial.state for trial in made] == ["done"] * 6
    assert [trial.is_spec for trial in made] == [True] + [False] * 5
    assert made[0].values == {RATE: 0.01, "model.num_experts": 4, "model.expert_units": [64, 32]}
    assert made[0].objective == auc(search.parsed.spec)


def test_a_spec_outside_of_its_ranges_is_no_trial(tmp_path: Path) -> None:
    search = request(tmp_path, trials=1, changes={"model.num_experts": 9})
    [first] = go_on(search, study_of(search))
    assert not first.is_spec
    assert first.values["model.num_experts"] < 9


def test_every_value_lies_in_its_range(tmp_path: Path) -> None:
    search = request(tmp_path, trials=15)
    for trial in go_on(search, study_of(search)):
        assert 1e-4 <= trial.values[RATE] <= 1e-1
        assert trial.values[RATE] == float(f"{trial.values[RATE]:.4g}")
        assert trial.values["model.num_experts"] in range(2, 9)
        assert trial.values["model.expert_units"] in ([64, 32], [32], [16])


@pytest.mark.parametrize("killed_at", [0, 3])
def test_an_interrupted_search_makes_the_trials_of_one_that_was_not(tmp_path: Path, killed_at: int) -> None:
    search = request(tmp_path)
    expected = go_on(search, study_of(search))
    study = study_of(search)
    with pytest.raises(SystemExit):
        go_on(search, study, _killed_at(killed_at))
    made = go_on(search, study)
    assert [(trial.values, trial.objective) for trial in made] == [
        (trial.values, trial.objective) for trial in expected
    ]
    assert [trial.starts for trial in made] == [2 if number == killed_at else 1 for number in range(6)]


def test_another_seed_draws_other_values(tmp_path: Path) -> None:
    tune = {"objective": "like", "trials": 2, "ranges": RANGES}
    searches = [request(tmp_path / str(seed), changes={"tune": {**tune, "seed": seed}}) for seed in (1, 2)]
    first, second = (go_on(search, study_of(search))[1].values for search in searches)
    assert first != second


def test_more_trials_go_on_with_those_that_are_there(tmp_path: Path) -> None:
    few, more = request(tmp_path, trials=3), request(tmp_path, trials=4)
    study = study_of(few)
    go_on(few, study)
    assert len(go_on(few, study, _killed_at(3))) == 3
    assert [trial.starts for trial in go_on(more, study)] == [1] * 4


def test_a_failed_trial_keeps_its_reason_and_the_search_goes_on(tmp_path: Path) -> None:
    search = request(tmp_path)
    made = go_on(
        search,
        study_of(search),
        lambda number, spec: PretendedTraining(spec, value=lambda *_: -1.0 if number == 2 else 0.7),
    )
    assert [trial.state for trial in made] == ["done", "done", "failed", "done", "done", "done"]
    assert tells(made[2].reason, "training", "not finite")


def test_a_search_of_failures_alone_ends_after_five(tmp_path: Path) -> None:
    search = request(tmp_path, trials=50)
    made = go_on(search, study_of(search), lambda number, spec: PretendedTraining(spec, value=lambda *_: -1.0))
    assert [trial.state for trial in made] == ["failed"] * 5


def test_a_metric_without_a_value_is_a_failure(tmp_path: Path) -> None:
    search = request(tmp_path, trials=1)
    [made] = go_on(
        search, study_of(search), lambda number, spec: PretendedTraining(spec, value=lambda *_: float("nan"))
    )
    assert mentions(made.reason, "like auc ... undefined")


def test_values_that_contradict_each_other_fail_their_trial_alone(tmp_path: Path) -> None:
    capacity = {"rows": 100, "evict": "least_frequent"}
    ranges = {
        "tables.tags.capacity": {"kind": "choice", "values": [None, capacity]},
        "training.evict_every_steps": {"kind": "choice", "values": [100, 1000]},
    }
    tune = {"objective": "like", "trials": 8, "ranges": ranges}
    search = request(tmp_path, changes={"tune": tune, "tables.tags.capacity": capacity})
    made = go_on(search, study_of(search))
    for trial in made:
        is_contradiction = trial.values["tables.tags.capacity"] is None
        assert (trial.state == "failed") == is_contradiction
        assert ("training.evict_every_steps: " in trial.reason) == is_contradiction
    assert {trial.state for trial in made} == {"done", "failed"}


def test_a_trial_below_the_median_of_its_epochs_is_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sangam.pipelines.tune.search._POLL_S", 0.0)
    pruning = {"kind": "median", "after_trials": 2, "after_epochs": 1}
    tune = {"objective": "like", "trials": 4, "ranges": RANGES, "pruning": pruning}
    search = request(tmp_path, changes={"tune": tune, "training.epochs": 4})
    by_number = [0.8, 0.7, 0.5, 0.9]

    def start(number: int, spec: Spec) -> PretendedTraining:
        return PretendedTraining(spec, slowly=True, value=lambda _, epoch: by_number[number] + epoch / 100)

    made = go_on(search, study_of(search), start)
    assert [(trial.state, trial.epoch) for trial in made] == [("done", 4), ("done", 4), ("pruned", 2), ("done", 4)]
    assert made[2].objective == pytest.approx(0.51)
    assert best_of(made, Objective(("like",), "auc")) == made[3]


def test_no_trial_begins_when_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("sangam.pipelines.tune.search.time.monotonic", lambda: now[0])
    search = request(tmp_path, changes={"tune": {"objective": "like", "minutes": 25 / 60, "ranges": RANGES}})

    def start(number: int, spec: Spec) -> PretendedTraining:
        now[0] += 10.0
        return PretendedTraining(spec)

    assert [trial.state for trial in go_on(search, study_of(search), start)] == ["done"] * 3


def test_a_trial_under_way_when_time_is_up_counts_by_its_best_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("sangam.pipelines.tune.search.time.monotonic", lambda: now[0])
    monkeypatch.setattr("sangam.pipelines.tune.search._POLL_S", 0.0)
    tune = {"objective": "like", "minutes": 25 / 60, "ranges": RANGES}
    search = request(tmp_path, changes={"tune": tune, "training.epochs": 9})
    by_epoch = [0.6, 0.8, 0.7, 0.9]

    class Slow(PretendedTraining):
        def is_running(self) -> bool:
            now[0] += 10.0
            return super().is_running()

    [made] = go_on(search, study_of(search), lambda _, spec: Slow(spec, slowly=True, value=lambda _, n: by_epoch[n]))
    assert (made.state, made.epoch, made.objective) == ("done", 2, 0.8)


def test_successive_halving_ends_a_trial_that_is_not_among_the_best_third(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sangam.pipelines.tune.search._POLL_S", 0.0)
    tune = {"objective": "like", "trials": 4, "ranges": RANGES, "pruning": {"kind": "successive_halving"}}
    search = request(tmp_path, changes={"tune": tune, "training.epochs": 4})
    by_number = [0.8, 0.7, 0.6, 0.9]

    def start(number: int, spec: Spec) -> PretendedTraining:
        return PretendedTraining(spec, slowly=True, value=lambda *_: by_number[number])

    made = go_on(search, study_of(search), start)
    assert [(trial.state, trial.epoch) for trial in made] == [("done", 4), ("pruned", 1), ("pruned", 1), ("done", 4)]


def test_values_that_belong_together_are_drawn_together(tmp_path: Path) -> None:
    small = {"model.num_experts": 2, "model.expert_units": [8]}
    large = {"model.num_experts": 8, "model.expert_units": [64]}
    sets = {"as it is": {}, "small": small, "large": large}
    tune = {"objective": "like", "trials": 8, "ranges": {"size": {"kind": "together", "values": sets}}}
    search = request(tmp_path, changes={"tune": tune})
    drawn: list[tuple[int, int]] = []

    def start(number: int, spec: Spec) -> PretendedTraining:
        assert spec.model.kind == "mmoe"
        drawn.append((spec.model.num_experts, spec.model.expert_units[0]))
        return PretendedTraining(spec)

    made = go_on(search, study_of(search), start)
    by_label = {"as it is": (4, 64), "small": (2, 8), "large": (8, 64)}
    assert drawn == [by_label[trial.values["size"]] for trial in made]
    assert made[0].is_spec
    assert set(drawn) == set(by_label.values())


def test_two_trials_at_a_time_are_as_many_in_all(tmp_path: Path) -> None:
    search = request(tmp_path, trials=3, jobs=2)
    begun: list[int] = []

    def start(number: int, spec: Spec) -> PretendedTraining:
        begun.append(number)
        return PretendedTraining(spec)

    assert [trial.state for trial in go_on(search, study_of(search), start)] == ["done"] * 3
    assert begun == [0, 1, 2]


def test_the_objective_is_the_mean_or_one_task_and_the_smaller_error_is_better() -> None:
    validation = {"like": {"auc": 0.9}, "share": {"auc": 0.7}, "stars": {"rmse": 1.5}}
    assert Objective(("like", "share"), "auc").value(validation) == pytest.approx(0.8)
    stars = Objective(("stars",), "rmse")
    assert (stars.value(validation), stars.is_larger_better, stars.name) == (1.5, False, "stars rmse")

"""The evaluator's executor on Beam: what it measures, what it blesses, and what it says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from sangam.schemas.contracts.root import Root
from tests.components.examples import sample_files
from tests.components.registry.sample_blessings import blessing
from tests.errors import mentions, place_and_value

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def models(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    world.export_model(folder / "good")
    world.export_model(folder / "worse", noise=0.5)
    world.export_model(folder / "one_task", noise=0.5, tasks=("like",), knows_ids=False)
    world.export_model(folder / "other_columns", column="a_column_of_long_ago")
    world.export_model(folder / "never", tasks=("never",))
    for flaw in ("nan", "slice", "task", "shape"):
        world.export_model(folder / flaw, flaw=flaw)
    world.export_model(folder / "two_tasks", tasks=("like", "watch"))
    return folder


def bless(root: Path, uri: Path) -> None:
    from sangam.components.registry.blessed import record
    from tests.components.steps.evaluator.sample_evaluation import model_artifact

    sealed = model_artifact(uri).get_string_custom_property("sha256") if uri.exists() else ""
    record(Root(str(root)).blessed("tiny"), blessing(str(uri), ranker_digest="d0", model_sha256=sealed))


def blessed_uris(root: Path) -> list[str]:
    from sangam.components.registry.blessed import read_all

    return [model.model_uri for model in read_all(Root(str(root)).blessed("tiny"))]


@pytest.fixture(scope="module")
def first(world: Any, examples: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The first model of a ranker, good in every task."""
    root = tmp_path_factory.mktemp("first")
    evaluation = {"slices": [["tab"]], "confidence": {"replicates": 50}}
    judged = world.evaluate(
        root / "run", root=root, examples=examples, model=models / "good", evaluation_config=evaluation
    )
    return judged, root


def test_metrics_equal_those_of_scikit_learn(first: Any, world: Any, columns: dict[str, np.ndarray]) -> None:
    tasks = first[0].verdict.tasks
    predicted = world.scores(columns)
    for task, label in (("like", "like"), ("download", "downloaded")):
        assert tasks[task].metrics["auc"] == pytest.approx(
            sklearn_metrics.roc_auc_score(columns[label], predicted[task]), abs=1e-4
        )
        assert tasks[task].metrics["log_loss"] == pytest.approx(
            sklearn_metrics.log_loss(columns[label], predicted[task]), abs=1e-5
        )
        calibration = predicted[task].sum() / columns[label].sum()
        assert tasks[task].metrics["calibration"] == pytest.approx(calibration, rel=1e-5)
        assert tasks[task].metrics["mean_label"] == pytest.approx(columns[label].mean())
        assert tasks[task].metrics["num_examples"] == world.NUM_ROWS
    rmse = sklearn_metrics.mean_squared_error(columns["watched_s"], predicted["watch"]) ** 0.5
    assert tasks["watch"].metrics["rmse"] == pytest.approx(rmse, rel=1e-5)


def test_slices_are_named_by_feature_and_value(first: Any, world: Any, columns: dict[str, np.ndarray]) -> None:
    slices = first[0].verdict.tasks["like"].slices
    assert set(slices) == {*(f"tab={tab}" for tab in world.TABS), "new tab"}
    for tab in world.TABS:
        chosen = columns["tab_name"] == tab.encode()
        auc = sklearn_metrics.roc_auc_score(columns["like"][chosen], world.scores(columns)["like"][chosen])
        assert slices[f"tab={tab}"]["auc"] == pytest.approx(auc, abs=1e-4)
        assert slices[f"tab={tab}"]["num_examples"] == chosen.sum()


def test_first_model_is_blessed_and_says_that_nothing_was_there_to_compare_with(first: Any, models: Path) -> None:
    judged, root = first
    assert judged.verdict.blessed
    assert judged.verdict.baseline is None
    like, watch, download = judged.verdict.notes
    assert mentions(like, "no blessed model ... like auc max_drop 0.02")
    assert mentions(watch, "no blessed model ... watch rmse max_rise 0.1")
    assert mentions(download, "download: predicted over observed 0.88 ... is beyond 0.9 to 1.1")
    assert [gate.kind for task in judged.verdict.tasks.values() for gate in task.gates] == ["finite", "value"] * 3
    assert judged.blessing.get_int_custom_property("blessed") == 1
    assert judged.blessing.get_string_custom_property("current_model") == str(models / "good")
    assert [path.name for path in Path(judged.blessing.uri).iterdir()] == ["BLESSED"]
    assert (Path(judged.evaluation.uri) / "verdict.txt").read_text() == judged.verdict.text()
    # The serving check has a say too: the pusher registers what both have blessed.
    assert blessed_uris(root) == []


def test_a_gate_that_passes_says_why(first: Any, world: Any) -> None:
    tasks = first[0].verdict.tasks
    auc = tasks["like"].metrics["auc"]
    assert mentions(tasks["like"].gates[0].reason, f"all {world.NUM_ROWS:,} ... finite")
    assert mentions(tasks["like"].gates[1].reason, f"auc {auc:.4f} ... 0.6000")
    assert mentions(tasks["watch"].gates[1].reason, f"rmse {tasks['watch'].metrics['rmse']:.4f} ... 2.0000")


def test_one_task_below_its_bound_refuses_the_model_though_the_mean_is_fine(
    world: Any, examples: Path, models: Path, tmp_path: Path
) -> None:
    strict = world.DOWNLOAD.model_copy(update={"at_least": 0.8})
    judged = world.evaluate(
        tmp_path / "run",
        root=tmp_path,
        examples=examples,
        model=models / "good",
        gates=(world.LIKE, strict, world.WATCH),
    )
    tasks = judged.verdict.tasks
    likes, downloads = tasks["like"].metrics["auc"], tasks["download"].metrics["auc"]
    assert (likes + downloads) / 2 > 0.8 > downloads
    assert not judged.verdict.blessed
    assert [gate.passed for task in tasks.values() for gate in task.gates[1:]] == [True, False, True]
    assert mentions(tasks["download"].gates[1].reason, f"auc {downloads:.4f} ... below ... 0.8000")
    assert judged.blessing.get_int_custom_property("blessed") == 0
    assert blessed_uris(tmp_path) == []


def test_a_column_that_tells_a_label_refuses_the_model_if_asked(
    world: Any, columns: dict[str, np.ndarray], models: Path, tmp_path: Path
) -> None:
    telling = columns | {"noise": columns["like"].astype(np.float32)}
    sample_files.write_eval_split(tmp_path / "examples", telling)
    judged = world.evaluate(
        tmp_path / "run",
        root=tmp_path,
        examples=tmp_path / "examples",
        model=models / "good",
        evaluation_config={"leaks": "refuse"},
    )
    failed = {task: [gate.kind for gate in verdict.failures] for task, verdict in judged.verdict.tasks.items()}
    assert failed == {"like": ["leak"], "download": [], "watch": []}
    assert mentions(judged.verdict.tasks["like"].failures[0].reason, "like: ... 'noise' ... 1.0000")
    assert not judged.verdict.blessed


def test_a_worse_candidate_is_refused_against_the_blessed_model(
    world: Any, columns: dict[str, np.ndarray], examples: Path, models: Path, tmp_path: Path
) -> None:
    bless(tmp_path, models / "good")
    judged = world.evaluate(tmp_path / "run", root=tmp_path, examples=examples, model=models / "worse")
    auc, blessed_auc = (
        sklearn_metrics.roc_auc_score(columns["like"], world.scores(columns, noise)["like"]) for noise in (0.5, 0.0)
    )
    _, value, change = judged.verdict.tasks["like"].gates
    assert (value.passed, change.passed) == (True, False)
    assert change.value == pytest.approx(blessed_auc - auc, abs=1e-4)
    assert mentions(
        change.reason,
        f"auc {judged.verdict.tasks['like'].metrics['auc']:.4f} ... {change.value:.4f} below ... "
        f"{blessed_auc:.4f} ... max_drop 0.0200",
    )
    assert "above the blessed model's" in judged.verdict.tasks["watch"].gates[2].reason
    assert "max_rise 0.1000" in judged.verdict.tasks["watch"].gates[2].reason
    assert not judged.verdict.blessed
    assert judged.verdict.baseline == str(models / "good")
    assert judged.verdict.notes == []
    assert blessed_uris(tmp_path) == [str(models / "good")]


def test_a_better_candidate_is_blessed_though_the_old_model_lacks_a_task_and_newer_signatures(
    world: Any, examples: Path, models: Path, tmp_path: Path
) -> None:
    bless(tmp_path, models / "one_task")
    gains = world.LIKE.model_copy(update={"min_gain": 0.0, "judge": "bound"})
    new_ids = world.Gate(task="like", metric="auc", new_id="tab", at_least=0.6, max_drop=0.02)
    judged = world.evaluate(
        tmp_path / "run",
        root=tmp_path,
        examples=examples,
        model=models / "good",
        gates=(gains, new_ids, *world.GATES[1:]),
        evaluation_config={"confidence": {"replicates": 50}},
    )
    task = judged.verdict.tasks["like"]
    assert [(gate.kind, gate.slice, gate.passed) for gate in task.gates] == [
        ("finite", "", True),
        ("value", "", True),
        ("change", "", True),
        ("gain", "", True),
        ("value", "new tab", True),
        ("change", "new tab", True),
    ]
    _, value, change, gain, _, _ = task.gates
    # Both models rise and fall with the draw of the examples: the difference is surer than either.
    assert 0 < gain.lower < gain.value < gain.upper
    assert gain.upper - gain.lower < value.upper - value.lower
    assert change.passed
    assert change.value < 0
    assert "above the blessed model's" in change.reason
    assert [gate.kind for gate in judged.verdict.tasks["watch"].gates] == ["finite", "value"]
    note, download = judged.verdict.notes
    assert mentions(note, f"{models / 'one_task'} ... 'watch' ... watch rmse max_rise 0.1")
    assert mentions(download, "download: predicted over observed 0.88 ... is beyond 0.9 to 1.1")
    assert judged.verdict.blessed
    assert judged.blessing.get_string_custom_property("baseline_model") == str(models / "one_task")


def test_labels_of_one_class_fail_the_gate_with_a_reason_even_at_bound_zero(
    world: Any, examples: Path, models: Path, tmp_path: Path
) -> None:
    inputs = world.INPUTS.model_validate_json(
        '{"features": {"x": {"kind": "numeric", "normalize": "zscore"}}, "tasks": {"never": {"kind": "binary"}}}'
    )
    gate = world.LIKE.model_copy(update={"task": "never", "at_least": 0.0})
    bless(tmp_path, tmp_path / "gone")
    judged = world.evaluate(
        tmp_path / "run", root=tmp_path, examples=examples, model=models / "never", gates=(gate,), inputs=inputs
    )
    task = judged.verdict.tasks["never"]
    assert task.metrics["auc"] is None
    assert task.metrics["calibration"] is None
    assert mentions(task.gates[1].reason, f"auc ... undefined ... {world.NUM_ROWS:,} labels are 0")
    assert not judged.verdict.blessed
    [note] = judged.verdict.notes
    assert mentions(note, f"{tmp_path / 'gone'} ... gone ... never auc max_drop 0.02")


def test_no_examples_is_an_error(world: Any, columns: dict[str, np.ndarray], models: Path, tmp_path: Path) -> None:
    from sangam.schemas.errors import UserError

    sample_files.write_eval_split(tmp_path / "examples", {name: values[:0] for name, values in columns.items()})
    with pytest.raises(UserError, match="no example"):
        world.evaluate(tmp_path / "run", root=tmp_path, examples=tmp_path / "examples", model=models / "good")


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        (None, "no blessed model yet"),
        ("gone", "is gone"),
        ("other_columns", "a_column_of_long_ago"),
        ("never", "none of the tasks"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_told_rather_than_raised(
    uri: str | None, problem: str, world: Any, examples: Path, models: Path
) -> None:
    from sangam.components.steps.evaluator.models.baseline import usable_baseline

    path = models / uri if uri else None
    sealed = world.model_artifact(path).get_string_custom_property("sha256") if path and path.exists() else ""
    found = usable_baseline(
        str(path) if path else None,
        sealed=sealed,
        wanted={"like"},
        examples=world.examples_artifact(examples),
        split="eval",
    )
    assert found.uri is None
    assert found.tasks == frozenset()
    assert problem in found.problem


def test_a_candidate_or_a_baseline_that_was_changed_is_not_loaded(world: Any, models: Path, tmp_path: Path) -> None:
    import shutil

    from sangam.components.steps.evaluator.executor import Executor
    from sangam.components.steps.evaluator.models.baseline import usable_baseline
    from sangam.schemas.errors import UserError

    shutil.copytree(models / "two_tasks", tmp_path / "model")
    model = world.model_artifact(tmp_path / "model")
    sealed = model.get_string_custom_property("sha256")
    [path] = (tmp_path / "model").rglob("saved_model.pb")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    given = {"model": [model], "examples": [world.examples_artifact(tmp_path)]}
    with pytest.raises(UserError, match=place_and_value("...", "(got saved_model.pb: sha256 ... next run")):
        Executor().Do(given, {}, {"inputs": world.INPUTS.model_dump_json()})
    with pytest.raises(UserError, match=place_and_value("...", "(got saved_model.pb: sha256 ... compared")):
        usable_baseline(model.uri, sealed=sealed, wanted={"like"}, examples=None, split="eval")

"""Broken models before the evaluator: each is refused, and for the right reason."""

from pathlib import Path
from typing import Any

import pytest
from sklearn import metrics as sklearn_metrics

from sangam.schemas.contracts.export import CUSTOM_OPS, TaskLoss
from tests.errors import mentions
from tests.schemas.sample_exports import sample_description, sample_report

pytestmark = pytest.mark.slow


def refuse(world: Any, folder: Path, examples: Path, *, gates: Any = None, **told: Any) -> Any:
    """Exports a model as told, evaluates it, and returns the verdict, which must be a refusal."""
    told_of_evaluation = {name: told.pop(name) for name in ("evaluation_config", "export", "report") if name in told}
    world.export_model(folder / "model", **told)
    judged = world.evaluate(
        folder / "run",
        root=folder,
        examples=examples,
        model=folder / "model",
        gates=world.GATES if gates is None else gates,
        **told_of_evaluation,
    )
    assert not judged.verdict.blessed
    assert judged.blessing.get_int_custom_property("blessed") == 0
    assert (Path(judged.blessing.uri) / "NOT_BLESSED").exists()
    assert not (folder / "blessed").exists()
    return judged.verdict


def reasons(verdict: Any) -> list[tuple[str, str, str]]:
    return [(task, gate.kind, gate.reason) for task, judged in verdict.tasks.items() for gate in judged.failures]


def tells_of(verdict: Any, *expected: tuple[str, str, str]) -> bool:
    """Returns whether exactly these gates failed: task, kind, and what the reason mentions."""
    found = reasons(verdict)
    return [(task, kind) for task, kind, _ in found] == [(task, kind) for task, kind, _ in expected] and all(
        mentions(reason, parts) for (_, _, reason), (_, _, parts) in zip(found, expected, strict=True)
    )


def test_one_bad_task_is_the_reason(world: Any, columns: Any, examples: Path, tmp_path: Path) -> None:
    verdict = refuse(world, tmp_path, examples, flaw="task")
    auc = 1 - sklearn_metrics.roc_auc_score(columns["downloaded"], world.scores(columns)["download"])
    assert tells_of(verdict, ("download", "value", f"auc {auc:.4f} ... below ... 0.6000"))


def test_one_bad_slice_is_the_reason_though_the_whole_is_fine(
    world: Any, columns: Any, examples: Path, tmp_path: Path
) -> None:
    each = world.DOWNLOAD.model_copy(update={"each": ("tab",)})
    verdict = refuse(world, tmp_path, examples, flaw="slice", gates=(*world.GATES[:2], each))
    chosen = columns["tab_name"] == b"search"
    auc = 1 - sklearn_metrics.roc_auc_score(columns["downloaded"][chosen], world.scores(columns)["download"][chosen])
    assert tells_of(verdict, ("download", "value", f"auc of tab=search {auc:.4f} ... below ... 0.6000"))
    passed = [gate for gate in verdict.tasks["download"].gates if gate.slice == "each tab"]
    assert passed[0].reason.startswith("2 of 3 ")


def test_scores_that_are_no_numbers_are_refused_with_their_number(
    world: Any, columns: Any, examples: Path, tmp_path: Path
) -> None:
    verdict = refuse(world, tmp_path, examples, flaw="nan")
    bad = int((columns["noise"] > 1.5).sum())
    assert tells_of(
        verdict,
        ("like", "finite", f"{bad:,} of {world.NUM_ROWS:,} ... NaN"),
        ("like", "value", f"auc ... undefined ... {bad:,} of {world.NUM_ROWS:,}"),
    )


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (
            {"tasks": ("like", "watch")},
            "score_blocks ... (got like, watch)",
        ),
        ({"flaw": "shape"}, "64 examples ... float32[64, 2] ... float32[64, 1]"),
    ],
    ids=["missing", "of a wrong shape"],
)
def test_a_task_without_usable_scores_is_refused_before_anything_is_measured(
    told: dict[str, Any], reason: str, world: Any, examples: Path, tmp_path: Path
) -> None:
    verdict = refuse(world, tmp_path, examples, **told)
    assert tells_of(verdict, ("download", "output", reason))
    assert len(verdict.notes) == 2
    assert all(
        mentions(note, f"{task} ... not measured") for task, note in zip(("like", "watch"), verdict.notes, strict=True)
    )


def test_a_model_that_cannot_score_the_examples_is_refused(world: Any, examples: Path, tmp_path: Path) -> None:
    verdict = refuse(world, tmp_path, examples, column="a_column_of_long_ago")
    assert {kind for _, kind, _ in reasons(verdict)} == {"output"}
    assert "a_column_of_long_ago" in verdict.tasks["like"].gates[0].reason


def test_a_model_that_asks_for_a_package_that_is_not_ours_is_refused(
    world: Any, examples: Path, tmp_path: Path
) -> None:
    extra = tmp_path / "model" / "Format-Serving" / "assets.extra"
    extra.mkdir(parents=True)
    (extra / "ranker.json").write_text(sample_description(custom_ops="antigravity").text())
    verdict = refuse(world, tmp_path, examples)
    assert "(got 'antigravity')" in verdict.tasks["like"].gates[0].reason


def test_the_package_of_a_model_with_tfra_tables_is_imported_before_it_is_loaded(tmp_path: Path) -> None:
    import sys

    from sangam.components.steps.evaluator.models.loaded import load_custom_ops

    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "assets.extra" / "ranker.json").write_text(sample_description(custom_ops=CUSTOM_OPS).text())
    load_custom_ops(str(tmp_path))
    assert "tensorflow_recommenders_addons" in sys.modules


def test_rows_that_cost_more_than_is_declared_are_refused(world: Any, examples: Path, tmp_path: Path) -> None:
    from sangam.schemas.spec.serving import Export

    loss = TaskLoss(metric="auc", full=0.75, reduced=0.747, loss=0.003)
    small = TaskLoss(metric="auc", full=1.0, reduced=1.0001, loss=0.0001)
    verdict = refuse(
        world,
        tmp_path,
        examples,
        export=Export(rows="int8", max_auc_loss=0.001),
        report=sample_report({"like": loss, "download": small, "watch": small}),
    )
    assert tells_of(
        verdict, ("like", "rows", "int8 ... auc ... 0.747000 ... 0.750000 ... 0.003000 ... max_auc_loss 0.001")
    )


def test_a_slice_is_judged_by_its_interval_and_what_is_not_judged_is_said(
    world: Any, examples: Path, tmp_path: Path
) -> None:
    auc = {"task": "like", "metric": "auc"}
    gates = tuple(
        world.Gate.model_validate({**auc, **gate})
        for gate in (
            {"new_id": "tab", "at_least": 0.85, "judge": "bound"},
            {"slice": {"tab": "shop"}, "at_least": 0.99},
            {"each": ("tab",), "at_least": 0.99},
        )
    )
    evaluation = {"confidence": {"replicates": 50}, "min_slice_examples": 402}
    verdict = refuse(world, tmp_path, examples, gates=gates, evaluation_config=evaluation | {"min_slice_examples": 401})
    new_tab = next(gate for gate in verdict.tasks["like"].gates if gate.slice == "new tab")
    assert new_tab.lower < 0.85 < new_tab.value
    assert mentions(new_tab.reason, f"lower ... {new_tab.lower:.4f} ... 95 % ... auc of new tab")
    assert any(mentions(note, "like auc of tab=shop ... no example") for note in verdict.notes)

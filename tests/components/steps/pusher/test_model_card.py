"""The model card: a whole small one, as text, and what it says where little is known."""

import dataclasses
from typing import Any

from sangam.components.reports.evaluation import GateVerdict, TaskVerdict, Verdict
from sangam.components.reports.serving import Check, ServingVerdict
from sangam.components.steps.pusher.manifest import Provenance
from sangam.components.steps.pusher.model_card import CardFacts, Rows, model_card
from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.export import ServedTask
from sangam.schemas.spec.release import Confidence, Evaluation
from sangam.schemas.spec.serving import Load
from sangam.schemas.spec.sync import Stale
from sangam.schemas.spec.training import EarlyStopping
from tests.schemas.sample_exports import sample_description

GATES = [
    GateVerdict(kind="value", metric="auc", bound=0.6, value=0.75, passed=True, reason="auc 0.7500 is at least 0.6000"),
    GateVerdict(
        kind="value",
        metric="auc",
        slice="tab=a|b",
        bound=0.6,
        value=0.5,
        passed=False,
        reason="tab=a|b is below",
    ),
]


def auc(value: float | None, count: float) -> dict[str, float | None]:
    return {"auc": value, "num_examples": count}


FACTS = CardFacts(
    provenance=Provenance(
        name="tiny",
        spec_digest="5ec",
        git_commit="c0ffee",
        days={"train": ["2024-03-01", "2024-03-02", "2024-03-04"], "eval": ["2024-03-05"]},
        missing_days=["2024-03-03"],
        base_days=["2024-02-28", "2024-02-29"],
        metrics={},
        baseline="models/7",
        notes=[],
    ),
    rows={
        "train": Rows(
            12_000,
            {"label missing: like": 3},
            {"items": {"rows with a version": 12_003}, "likes": {"actions joined": 900, "actions repeated": 2}},
        ),
        "eval": Rows(4_000, {}, {"items": {"rows with a version": 4_000}, "likes": {}}),
    },
    verdict=Verdict(
        blessed=True,
        baseline="models/7",
        notes=["share has no gate"],
        tasks={
            "like": TaskVerdict(
                metrics={"auc": 0.75, "log_loss": None, "num_examples": 4_000.0, "num_groups_skipped": 12.0},
                intervals={"auc": (0.74, 0.761)},
                slices={
                    "tab=home": auc(0.8, 3_000),
                    "tab=a|b": auc(0.5, 900),
                    "tab=few": auc(0.1, 99),
                    "tab=one class": auc(None, 500),
                    "new user": auc(0.6, 100),
                    "tab=good": auc(0.9, 100),
                },
                slice_intervals={"tab=a|b": {"auc": (0.4, 0.6)}},
                gates=GATES,
            ),
            "watch": TaskVerdict(
                metrics={"rmse": 2.0}, slices={"tab=home": {"rmse": 3.0, "num_examples": 3_000.0}}, gates=[]
            ),
        },
    ),
    serving=ServingVerdict(
        blessed=True,
        model_bytes=12_345_678,
        load_s=3.21,
        load=Load(candidates=200, clients=2),
        once=["user_id"],
        p50_ms=4.123,
        p99_ms=6.5,
        requests=1_234,
        checks=[Check(name="scores", passed=True, reason="as the trainer's")],
        notes=["serving.max_p99_ms is not declared"],
    ),
    evaluation=Evaluation(confidence=Confidence(replicates=100, by="user")),
    intended_use="Ranks the home feed.",
    model=sample_description(),
)

CARD = r"""# tiny, version 20240305001

## Intended use

Ranks the home feed.

## Data

| split | days | rows | rows left out |
| --- | --- | --- | --- |
| train | 2024-03-01 to 2024-03-02, 2024-03-04 (3) | 12,000 | 3 label missing: like |
| eval | 2024-03-05 | 4,000 | none |

Logs that were joined to the rows:

| split | source | rows of both sides |
| --- | --- | --- |
| train | items | 12,003 rows with a version |
| train | likes | 900 actions joined, 2 actions repeated |
| eval | items | 4,000 rows with a version |
| eval | likes | none |

Days without logs: 2024-03-03.

Training continued a checkpoint that was trained on 2024-02-28 to 2024-02-29 (2).

## Quality

On the eval split. Intervals: 95 %, bootstrap of 100 replicates, drawing all examples of a user together.

| metric | like | watch |
| --- | --- | --- |
| auc | 0.7500 [0.7400, 0.7610] |  |
| log_loss | undefined |  |
| num_examples | 4,000 |  |
| num_groups_skipped | 12 |  |
| rmse |  | 2.0000 |

## Gates

| task | on | verdict | reason |
| --- | --- | --- | --- |
| like | all examples | pass | auc 0.7500 is at least 0.6000 |
| like | tab=a\|b | **fail** | tab=a\|b is below |

Compared with the blessed model models/7.

## Slices worth knowing

The worst of each task, of slices with at least 100 examples.

| task | slice | examples | metric | value | interval | all examples |
| --- | --- | --- | --- | --- | --- | --- |
| like | tab=a\|b | 900 | auc | 0.5000 | [0.4000, 0.6000] | 0.7500 |
| like | new user | 100 | auc | 0.6000 |  | 0.7500 |
| like | tab=home | 3,000 | auc | 0.8000 |  | 0.7500 |
| watch | tab=home | 3,000 | rmse | 3.0000 |  | 2.0000 |

## Serving

Size: 12.3 MB. A server is ready after 3.2 s. Latency: p50 4.12 ms, p99 6.5 ms of 1,234 requests (200 candidates a request, given once: user_id; clients: 2).

| check | verdict | reason |
| --- | --- | --- |
| scores | pass | as the trainer's |

## Not judged

- share has no gate
- serving.max_p99_ms is not declared

## Origin

- spec digest: `5ec`
- git commit of the code: `c0ffee`
- training: sync (transport auto), 2 ranks
- form: stock, rows: float32
- tensorflow 2.16.2

Checksums of all files, this one included, are in `manifest.json`.
"""  # noqa: E501 - a line of the card


def test_a_card_tells_of_data_quality_gates_slices_serving_and_origin() -> None:
    assert model_card("20240305001", FACTS) == CARD


def card(**changes: Any) -> str:
    return model_card("1", CardFacts(**{**FACTS.__dict__, **changes}))


def test_what_predictions_mean_stands_before_the_metrics() -> None:
    assert "## Quality\n\nOn the" in card()
    before = card(meaning=["'bought' predicts a rate among 100 candidates"]).partition("| metric |")[0]
    assert before.endswith("\n\n'bought' predicts a rate among 100 candidates.\n\n")


def test_what_is_not_known_is_said() -> None:
    provenance = FACTS.provenance.model_copy(
        update={"days": {}, "missing_days": [], "base_days": [], "git_commit": "", "baseline": None}
    )
    bare = TaskVerdict(metrics={"auc": 0.7}, slices={}, gates=[])
    shown = card(
        provenance=provenance,
        rows={"train": Rows(12_000, {}, {})},
        verdict=Verdict(blessed=True, baseline=None, notes=[], tasks={"like": bare}),
        serving=FACTS.serving.model_copy(update={"load_s": None, "p50_ms": None, "notes": []}),
        intended_use="",
        model=None,
    )
    for said in (
        "Not stated: the spec has no `intended_use`.",
        "| train | no dates | 12,000 |",
        "Training started from scratch.",
        "On the eval split, without confidence intervals.",
        "The spec has none.",
        "Compared with no other model.",
        "None were measured.",
        "## Not judged\n\nEverything in the spec was judged.",
        "- git commit of the code: not known",
    ):
        assert said in shown
    assert "Days without logs" not in shown
    assert "joined" not in shown
    assert "Latency" not in shown


def test_a_model_that_a_person_has_blessed_says_so_above_its_gates() -> None:
    verdict = FACTS.verdict.blessed_by_hand(because="the holiday", by="asha", when="2024-03-06T07:08:09+00:00")
    shown = card(verdict=verdict)
    assert "## Gates\n\n**Blessed by hand** by asha, because: the holiday\n\n| task |" in shown
    assert "- blessed by hand by asha at 2024-03-06T07:08:09+00:00" in shown


def test_a_card_names_the_mode_of_training_and_its_settings() -> None:
    described = sample_description()
    ranker = described.ranker
    training = ranker.training.model_copy(update={"sync": Stale(kind="stale", staleness=2)})
    cluster = ranker.cluster.model_copy(update={"parameter_servers": 3})
    model = described.model_copy(
        update={"ranker": ranker.model_copy(update={"training": training, "cluster": cluster})}
    )
    settings = "staleness 2, wire float32, compare_every_steps 1000"
    assert f"- training: stale ({settings}), 2 ranks, 3 parameter servers\n" in card(model=model)


def test_validation_days_that_the_model_has_seen_are_said() -> None:
    seen = FACTS.provenance.model_copy(update={"refit_days": ["2024-03-04"]})
    said = "on the validation days 2024-03-04, the model was trained on them as well."
    assert said in model_card("1", dataclasses.replace(FACTS, provenance=seen))
    assert "trained on them" not in model_card("1", FACTS)
    described = sample_description()
    stopping = EarlyStopping(refit=True)
    training = described.ranker.training.model_copy(update={"early_stopping": stopping})
    model = described.model_copy(update={"ranker": described.ranker.model_copy(update={"training": training})})
    undated = dataclasses.replace(
        FACTS,
        provenance=FACTS.provenance.model_copy(update={"days": {}}),
        rows={**FACTS.rows, "validation": FACTS.rows["train"]},
        model=model,
    )
    assert "on the validation split, the model was trained on it as well." in model_card("1", undated)


def test_a_card_says_on_what_a_task_was_calibrated_and_what_it_was_before() -> None:
    fitted = Calibration(kind="platt", days=("2024-03-04",), examples=3_000, positives=200, slope=0.5)
    tasks = {
        "like": ServedTask(kind="binary", label="like", calibration=fitted),
        "share": ServedTask(
            kind="binary", label="share", calibration=fitted.model_copy(update={"problem": "there are no positives"})
        ),
        "watch": ServedTask(kind="regression", label="watch"),
    }
    measured = {"calibration": 1.01, "uncalibrated_calibration": 1.25, "uncalibrated_calibration_error": None}
    like = FACTS.verdict.tasks["like"].model_copy(update={"metrics": measured})
    verdict = FACTS.verdict.model_copy(update={"tasks": {**FACTS.verdict.tasks, "like": like}})
    shown = card(model=sample_description(tasks=tasks), verdict=verdict)
    assert (
        "like is calibrated (platt), fitted on 3,000 examples (200 positives) of the validation split, 2024-03-04: "
        "predicted over observed 1.0100, before calibration 1.2500, calibration error undefined, before calibration "
        "undefined." in shown
    )
    assert "share is not calibrated (platt): there are no positives." in shown
    assert "watch is" not in shown

"""A search from its folder to the best spec; the trainings are pretended."""

import csv
import json
import re
from pathlib import Path

import pytest

from sangam.pipelines.tune.records import Validation, trials_of
from sangam.pipelines.tune.request import STUDY_FILE, check_tune
from sangam.pipelines.tune.run import document
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from tests.errors import mentions, place_and_value, tells
from tests.paths import SPECS
from tests.pipelines.tune.fake_training import RANGES, PretendedTraining, auc, request, run, study_of

RATE = "training.dense_optimizer.learning_rate"
SHORT_VIDEO = SPECS / "short_video.yaml"


@pytest.mark.slow
def test_a_search_leaves_the_best_spec_a_table_a_page_and_a_plot(tmp_path: Path) -> None:
    search = request(tmp_path)

    def start(number: int, spec: Spec) -> PretendedTraining:
        return PretendedTraining(spec, value=lambda *_: -1.0 if number == 2 else auc(spec))

    code, shown = run(search, start)
    made = trials_of(study_of(search, search.folder / STUDY_FILE))
    best = max(made, key=lambda trial: trial.objective or 0.0)
    assert code == 0
    assert tells(shown, "best", f"trial {best.number} ... like auc {best.objective:.4f} ... {made[0].objective:.4f}")
    spec = load_spec(search.folder / "best.yaml")
    assert auc(spec) == best.objective
    assert spec.tune is None
    with (search.folder / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == ["done", "done", "failed", "done", "done", "done"]
    assert tells(rows[2]["reason"], "training", "not finite")
    assert float(rows[best.number]["like.auc"]) == float(f"{best.objective:.6g}")
    assert float(rows[best.number][RATE]) == spec.training.dense_optimizer.learning_rate
    page = (search.folder / "trials.md").read_text().splitlines()
    assert page[8].startswith(f"| {best.number} | {best.objective:.4f} | ")
    assert mentions(page[-1], "| failed training: ... not finite ...|")
    assert (search.folder / "trials.png").read_bytes()[:4] == b"\x89PNG"
    told = json.loads(json.dumps(document(search)))
    assert (told["best"], told["objective"]) == (best.number, "like auc")
    assert [trial["state"] for trial in told["trials"]] == [row["state"] for row in rows]
    # A search that was killed when a trial had ended leaves its checkpoints.
    for name in ("checkpoints/.step-000000000007.tmp", "final"):
        (search.folder / "trials" / "0001" / name).mkdir(parents=True)
    # The same command again trains nothing; other ranges are another search.
    code, shown = run(search, start)
    assert (code, mentions(shown, "6 trials ... --trials")) == (0, True)
    assert list((search.folder / "trials" / "0001").iterdir()) == []
    ranges = {**RANGES, "model.num_experts": {"kind": "int", "low": 2, "high": 9}}
    other = request(tmp_path, trials=1, changes={"tune": {"objective": "like", "ranges": ranges}})
    [said] = [line for line in run(other)[1].splitlines() if line.startswith("a new search: ")]
    assert "tune.ranges.model.num_experts.high" in said


@pytest.mark.slow
def test_a_search_of_failures_alone_fails_with_the_first_reason(tmp_path: Path) -> None:
    search = request(tmp_path, trials=50)
    code, shown = run(search, lambda number, spec: PretendedTraining(spec, value=lambda *_: -1.0))
    assert code == 1
    assert mentions(" ".join(shown.split()), "all trials failed ... 5 ... training: ")
    assert not (search.folder / "best.yaml").exists()


@pytest.mark.slow
def test_the_best_spec_keeps_order_and_comments(tmp_path: Path) -> None:
    text = SHORT_VIDEO.read_text().replace("train_days: 6", "train_days: 6\n  validation_days: 1  # the newest")
    model = "{kind: ple, num_levels: 1, expert_units: [32]}"
    choice = f"{{kind: choice, values: [{model}, {{kind: mmoe}}]}}"
    ranges = f"{{{RATE}: {{kind: float, low: 0.001, high: 0.004}}, model: {choice}}}"
    (tmp_path / "spec.yaml").write_text(f"{text}tune: {{ranges: {ranges}}}\n")
    data = tmp_path / "logs"
    data.mkdir()
    search = check_tune(tmp_path / "spec.yaml", "2024-03-07", data, tmp_path / "root", trials=8, jobs=1)

    class OfPle(PretendedTraining):
        def epochs(self) -> list[Validation]:
            return [{task: {"auc": 0.6 if self.spec.model.kind == "ple" else 0.5} for task in self.spec.tasks}]

    assert run(search, lambda number, spec: OfPle(spec))[0] == 0
    best = (search.folder / "best.yaml").read_text().splitlines()
    assert re.fullmatch(r"# Trial \d of `sangam tune` on spec.yaml: mean auc 0.6000 on the validation split.", best[0])
    assert f"model: {model}" in best
    assert "  validation_days: 1  # the newest" in best
    assert [line for line in best if line.startswith("  dense_optimizer: {kind: adam, learning_rate: 0.00")]
    keys = [line.split(":")[0] for line in best if line[:1].isalpha()]
    assert keys == [line.split(":")[0] for line in text.splitlines() if line[:1].isalpha()]


def test_a_spec_without_ranges_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("tune", "is missing ... docs/tuning.md")):
        check_tune(SHORT_VIDEO, "2024-03-07", tmp_path, tmp_path / "root", trials=None, jobs=1)

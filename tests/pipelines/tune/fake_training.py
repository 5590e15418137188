"""A search whose trainings are pretended: what a trial comes to is a formula of its spec."""

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
from rich.console import Console

from sangam.pipelines.tune.records import Trial, Validation, objective_of, trials_of
from sangam.pipelines.tune.request import SearchRequest, check_tune
from sangam.pipelines.tune.run import run_tune
from sangam.pipelines.tune.search import Search, Watcher, open_study
from sangam.pipelines.tune.training import Examples, Result, TrialFailed
from sangam.schemas.spec import Spec
from tests.schemas.sample_specs import changed, write

RANGES = {
    "training.dense_optimizer.learning_rate": {"kind": "float", "low": 1e-4, "high": 1e-1, "log": True},
    "model.num_experts": {"kind": "int", "low": 2, "high": 8},
    "model.expert_units": {"kind": "choice", "values": [[64, 32], [32], [16]]},
}


def request(
    folder: Path, *, trials: int | None = None, jobs: int = 1, changes: dict[str, Any] | None = None
) -> SearchRequest:
    """Returns a search over three ranges; the spec lies in each of them."""
    tune = {"objective": "like", "trials": 6, "ranges": RANGES}
    document = changed({"data.validation_days": 1, "tune": tune, **(changes or {})})
    data = folder / "logs"
    data.mkdir(parents=True, exist_ok=True)
    spec = write(folder / "spec.yaml", document)
    return check_tune(spec, "2024-03-07", data, folder / "root", trials=trials, jobs=jobs)


def auc(spec: Spec, epoch: int = 0) -> float:
    """Returns what the pretended model comes to: best at a learning rate of 0.003 with 5 experts."""
    assert spec.model.kind == "mmoe"
    rate = math.log10(spec.training.dense_optimizer.learning_rate / 0.003)
    return 0.9 - 0.05 * rate**2 - 0.01 * abs(spec.model.num_experts - 5) + 0.001 * epoch


class PretendedTraining:
    """Has ended as soon as it has begun, unless it is to show one epoch at a time."""

    def __init__(self, spec: Spec, *, slowly: bool = False, value: Callable[[Spec, int], float] = auc):
        self.spec, self._value = spec, value
        self._shown = 0 if slowly else spec.training.epochs

    def is_running(self) -> bool:
        self._shown += 1
        return self._shown <= self.spec.training.epochs

    def epochs(self) -> list[Validation]:
        shown = min(self._shown, self.spec.training.epochs)
        return [{"like": {"auc": self._value(self.spec, epoch)}, "stars": {"rmse": 1.0}} for epoch in range(shown)]

    def progress(self) -> str:
        return ""

    def result(self) -> Result:
        validation = self.epochs()[-1]
        if validation["like"]["auc"] < 0:
            raise TrialFailed("training: losses or gradients were not finite")
        return Result(self.spec.training.epochs, validation)

    def end(self) -> None: ...
    def tidy(self) -> None: ...


Start = Callable[[int, Spec], PretendedTraining]


def pretend(number: int, spec: Spec) -> PretendedTraining:
    """Starts a pretended training."""
    return PretendedTraining(spec)


def study_of(search: SearchRequest, file: Path | None = None) -> optuna.Study:
    """Returns the record of a search."""
    spec = search.parsed.spec
    return open_study(file, spec.name, search.tune.pruning, objective_of(spec))


def go_on(search: SearchRequest, study: optuna.Study, start: Start = pretend) -> list[Trial]:
    """Runs what is left of a search; returns its trials."""
    objective = objective_of(search.parsed.spec)
    Search(search.parsed, search.prepared, objective, study).run(start, Watcher(), jobs=search.jobs)
    return trials_of(study)


def run(search: SearchRequest, start: Start = pretend) -> tuple[int, str]:
    """Runs a search as the command does; returns the exit code and what the terminal shows."""
    search.folder.mkdir(parents=True, exist_ok=True)
    examples = Examples(run="earlier", train_files=(), validation_files=(), transform_graph="")
    (search.folder / "examples.json").write_text(examples.model_dump_json())
    shown = io.StringIO()
    code = run_tune(search, Console(file=shown, width=200), lambda folder, examples: start)
    return code, shown.getvalue()

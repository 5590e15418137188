"""`sangam tune` in the terminal, from the search's folder to the best spec."""

import contextlib
import dataclasses
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from sangam.components.processes.stopping import Stopped, StopSignals
from sangam.components.record.lock import locked
from sangam.pipelines.console import say
from sangam.pipelines.local.child_run import CHILD_GRACE_S
from sangam.pipelines.times import duration
from sangam.pipelines.tune.examples import ExamplesFailed, make_examples, read_examples
from sangam.pipelines.tune.plot import draw_trials
from sangam.pipelines.tune.records import Objective, Trial, best_of, objective_of, trials_of
from sangam.pipelines.tune.request import IDENTITY_FILE, STUDY_FILE, SearchRequest, what_is_new
from sangam.pipelines.tune.results import BEST_FILE, PLOT_FILE, shown, write_best, write_page, write_table
from sangam.pipelines.tune.search import HOPELESS_AFTER, Search, Start, Watcher, is_hopeless, most_trials, open_study
from sangam.pipelines.tune.training import Examples, Training, TrialFailed, remove_checkpoints, trial_folder
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.host.files import write_whole
from sangam.schemas.host.lock import LockHeld
from sangam.schemas.quantities import shown_seconds
from sangam.schemas.spec import Spec, digest

_SHOWN_CHANGES = 5

Launch = Callable[[Path, Callable[[Spec], Examples]], Start]
"""Creates the function that starts trials, from the search's folder and the examples of a spec."""


def launch_trainings(folder: Path, examples: Callable[[Spec], Examples]) -> Start:
    """Returns the function that starts a trial as a training job, in `trials/<number>` of the search's folder."""
    return lambda number, spec: Training(trial_folder(folder, number), spec, examples(spec))


def run_tune(request: SearchRequest, console: Console, launch: Launch = launch_trainings) -> int:
    """Starts or resumes a search, and returns the exit code."""
    objective = objective_of(request.parsed.spec)
    _open(request, objective, console)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(request.folder))
        except LockHeld as error:
            say(str(error), console)
            return ExitCode.ROOT_IN_USE
        study = open_study(request.folder / STUDY_FILE, request.parsed.spec.name, request.tune.pruning, objective)
        search = Search(request.parsed, request.prepared, objective, study)
        stop = stack.enter_context(StopSignals(grace_s=2 * CHILD_GRACE_S))
        begun = trials_of(study)
        _tidy(request.folder, begun)
        interrupted = [trial.number for trial in begun if trial.state == "unfinished"]
        code: int = ExitCode.DONE
        if is_hopeless(begun):
            pass
        elif len(begun) >= most_trials(request.tune) and not interrupted:
            say(f"the search has its {len(begun)} trials; a larger --trials extends it", console)
        else:
            _say_how_it_goes_on(begun, interrupted, console)
            try:
                with stop.raised():
                    start = launch(request.folder, _Examples(request, stop, console))
                    with _watcher(
                        request, objective, study_trials=lambda: trials_of(study), console=console
                    ) as watcher:
                        search.run(start, watcher, jobs=request.jobs)
            except ExamplesFailed as failed:
                say(str(failed), console)
                return failed.code
            except Stopped as stopped:
                say(f"{stopped}; the same command resumes", console)
                code = stopped.exit_code
        return _conclude(request, trials_of(study), objective, console) or code


def document(request: SearchRequest) -> dict[str, Any]:
    """Returns the search so far as JSON, for programs: all trials, and the number of the best."""
    objective = objective_of(request.parsed.spec)
    path = request.folder / STUDY_FILE
    trials: list[Trial] = []
    if path.exists():
        trials = trials_of(open_study(path, request.parsed.spec.name, request.tune.pruning, objective))
    best = best_of(trials, objective)
    return {
        "name": request.parsed.spec.name,
        "objective": objective.name,
        "folder": str(request.folder),
        "best": best.number if best else None,
        "best_spec": str(request.folder / BEST_FILE) if best else None,
        "trials": [dataclasses.asdict(trial) for trial in trials],
    }


def _open(request: SearchRequest, objective: Objective, console: Console) -> None:
    """Creates the search's folder, and prints its ranges and its differences from the last search."""
    tune, ranges = request.tune, len(request.tune.ranges)
    most = most_trials(tune)
    limits = [f"{most} trials"] if most < math.inf else []
    limits += [duration(60 * tune.minutes)] if tune.minutes else []
    say(
        f"tune {request.parsed.spec.name}: {' or '.join(limits)} over {ranges} range{'s'[: ranges > 1]} by "
        f"{objective.name} on the validation split, in {request.folder}",
        console,
    )
    if (request.folder / IDENTITY_FILE).exists():
        return
    if changes := what_is_new(request):
        more = f" and {len(changes) - _SHOWN_CHANGES} more" if len(changes) > _SHOWN_CHANGES else ""
        say(f"a new search: {', '.join(changes[:_SHOWN_CHANGES])}{more} changed since the last one", console)
    request.folder.mkdir(parents=True, exist_ok=True)
    # A copy: edits of the spec during the search must not change it.
    shutil.copyfile(request.spec_path, request.folder / "spec.yaml")
    (request.folder / IDENTITY_FILE).write_text(json.dumps(request.identity, indent=2) + "\n")


def _tidy(folder: Path, begun: Sequence[Trial]) -> None:
    """Removes checkpoints of finished trials that a killed search has left."""
    for trial in begun:
        if trial.state != "unfinished":
            remove_checkpoints(trial_folder(folder, trial.number))


def _say_how_it_goes_on(begun: Sequence[Trial], interrupted: Sequence[int], console: Console) -> None:
    if begun:
        say(f"goes on after {len(begun) - len(interrupted)} trials", console)
    if interrupted:
        say(f"interrupted, and run again: {', '.join(f'trial {number}' for number in interrupted)}", console)


class _Examples:
    """The examples of specs, written for the first trial with each set of features."""

    def __init__(self, request: SearchRequest, stop: StopSignals, console: Console):
        """Writes the examples of the search's own spec."""
        self._request, self._stop, self._console = request, stop, console
        self._own = digest(request.parsed.spec.inputs())
        self._known: dict[str, Examples] = {}
        self(request.parsed.spec)

    def __call__(self, spec: Spec) -> Examples:
        """Returns the examples of a spec.

        Raises:
            ExamplesFailed: the examples of the search's own spec cannot be written.
            TrialFailed: the examples of another spec cannot be written.
        """
        features = digest(spec.inputs())
        if features not in self._known:
            self._known[features] = self._made(spec, features)
        return self._known[features]

    def _made(self, spec: Spec, features: str) -> Examples:
        is_own, folder = features == self._own, self._request.folder
        file = folder / ("examples.json" if is_own else f"examples-{features[:8]}.json")
        if known := read_examples(file):
            say(f"examples of run {known.run}", self._console)
            return known
        started = time.monotonic()
        say(f"examples: from the logs to Transform, output in {file.with_suffix('.log')}", self._console)
        spec_file = folder / "spec.yaml"
        if not is_own:
            spec_file = file.with_suffix(".spec.yaml")
            write_whole(
                spec_file, json.dumps(spec.model_dump(mode="json", exclude={"tune"}, exclude_unset=True), indent=1)
            )
        try:
            made = make_examples(self._request, spec_file, file, self._stop)
        except ExamplesFailed as failed:
            if is_own:
                raise
            raise TrialFailed(str(failed)) from failed
        say(f"examples of run {made.run}, {shown_seconds(time.monotonic() - started)}", self._console)
        return made


@contextlib.contextmanager
def _watcher(
    request: SearchRequest, objective: Objective, study_trials: Callable[[], list[Trial]], console: Console
) -> Iterator[Watcher]:
    """Yields a watcher that prints a line for each finished trial and, on a terminal, a live line meanwhile."""
    with console.status("") if console.is_terminal else contextlib.nullcontext() as status:

        def ended(trial: Trial) -> None:
            trials = study_trials()
            _write(request, trials, objective)
            say(_line(trial, trials, objective), console)

        def running(trials: Sequence[tuple[int, str]]) -> None:
            if status:
                status.update(", ".join(f"trial {number} {progress}" for number, progress in trials))

        yield Watcher(ended, running)


def _line(trial: Trial, trials: Sequence[Trial], objective: Objective) -> str:
    took = shown_seconds(trial.seconds) if trial.seconds is not None else ""
    values = ", ".join(f"{path} {shown(value)}" for path, value in trial.values.items())
    value = f"{objective.name} {trial.objective:.4f}" if trial.objective is not None else trial.reason
    is_best = trial == best_of(trials, objective)
    notes = [value, "best so far" if is_best else "", "the spec as it is" if trial.is_spec else ""]
    return f"trial {trial.number:<3} {trial.state:<7} {took:>12}  {'; '.join(filter(None, notes))} ({values})"


def _write(request: SearchRequest, trials: Sequence[Trial], objective: Objective) -> Path | None:
    """Writes table, page and best spec; returns the path of the best spec, if there is one."""
    write_table(request.folder, trials, objective)
    write_page(request, trials, objective)
    best = best_of(trials, objective)
    return write_best(request, best, objective) if best else None


def _conclude(request: SearchRequest, trials: Sequence[Trial], objective: Objective, console: Console) -> int:
    """Prints the result of the search; returns 1 if every trial failed."""
    path = _write(request, trials, objective)
    draw_trials(request.folder / PLOT_FILE, trials, objective, request.tune.ranges)
    best = best_of(trials, objective)
    if best is None:
        if failed := [trial for trial in trials if trial.state == "failed"]:
            end = f"; after {HOPELESS_AFTER} of them the search ends" if is_hopeless(trials) else ""
            say(f"all trials failed{end}; the first: {failed[0].reason}", console)
            say(f"fix the cause; to search again, remove {request.folder}", console)
            return ExitCode.FAILED
        return ExitCode.DONE
    own = next((trial.objective for trial in trials if trial.is_spec and trial.objective is not None), None)
    beside = f" (the spec as it is: {own:.4f})" if own is not None and not best.is_spec else ""
    say(f"best: trial {best.number}, {objective.name} {best.objective:.4f}{beside}", console)
    for path_in_spec, value in best.values.items():
        say(f"  {path_in_spec}: {shown(value)}", console)
    say(f"best spec: {path}\nall trials: {request.folder}/trials.csv, trials.md and trials.png", console)
    return ExitCode.DONE

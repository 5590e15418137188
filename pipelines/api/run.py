"""A run in Python: what became of it, as frames, a page, and words."""

import datetime
import html
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sangam.components.object_stores import is_stored
from sangam.components.record.outcome import outcome_of
from sangam.components.record.store import State, StoredRun
from sangam.components.registry import shadow
from sangam.components.reports import evaluation
from sangam.components.reports.evaluation import TaskVerdict, Verdict
from sangam.components.reports.spec_file import spec_text
from sangam.pipelines.api.frames import gates_frame, metrics_frame, steps_frame, tables_frame
from sangam.pipelines.api.spec import Spec
from sangam.pipelines.history.show import read_shown, reason_of
from sangam.pipelines.times import utc_now
from sangam.schemas.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame

_FRAME_PX = 640


@dataclass(frozen=True)
class Run:
    """A run in a root, as it was when it was read; a notebook shows its page.

    >>> run = sangam.Root("root").latest
    >>> run.state
    'pushed'
    """

    _stored: StoredRun

    @property
    def id(self) -> str:
        """The id: its start (UTC), and the first digits of the spec's digest.

        >>> run.id.endswith(run.spec.digest[:8])
        True
        """
        return self._stored.id

    @property
    def ranker(self) -> str | None:
        """The name of the ranker; None: unknown.

        >>> run.ranker
        'clicks'
        """
        return self._stored.ranker

    @property
    def date(self) -> datetime.date | None:
        """The last day of evaluation; None for logs without days.

        >>> run.date
        datetime.date(2024, 5, 20)
        """
        return datetime.date.fromisoformat(self._stored.date) if self._stored.date else None

    @property
    def state(self) -> State:
        """How it ended: `pushed`, `blessed`, `refused`, `ended`, `failed`, `stopped`, `killed`, or `running`.

        >>> run.state
        'pushed'
        """
        return self._stored.state

    @property
    def seconds(self) -> float | None:
        """The seconds that it took, or has taken so far; None: unknown.

        >>> run.seconds > 0
        True
        """
        return self._stored.seconds(utc_now())

    @property
    def folder(self) -> Path:
        """Its folder: summary, spec, page and logs.

        >>> (run.folder / "summary.json").exists()
        True
        """
        return self._stored.folder.path

    @cached_property
    def spec(self) -> Spec:
        """Its spec, without defaults.

        >>> run.spec.name
        'clicks'

        Raises:
            SpecError: this version of Sangam refuses it.
            UserError: its file is gone.
        """
        file = self._stored.folder.spec
        try:
            text = spec_text(self._stored.folder)
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{file}: cannot be read (got {error}); load the spec from its own file") from None
        return Spec.from_yaml(text, str(file))

    @property
    def metrics(self) -> "DataFrame":
        """A row for each metric of each task and slice, with its interval and the last blessed model's value.

        Slices are read from the output of the evaluator; once it was removed, all examples are left.

        >>> rows = run.metrics.query("slice == 'all' and metric == 'auc'")
        >>> list(rows.columns)
        ['task', 'slice', 'metric', 'value', 'lower', 'upper', 'last_model']
        >>> bool(rows.value.item() > 0.6)
        True
        """
        return metrics_frame(self._tasks)

    @property
    def gates(self) -> "DataFrame":
        """A row for each gate, with its verdict and its reason.

        >>> bool(run.gates.passed.all())
        True
        """
        return gates_frame(self._tasks)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on what no gate refuses: drift, calibration, slices.

        >>> isinstance(run.warnings, tuple)
        True
        """
        return tuple(self._stored.record.warnings) if self._stored.record else ()

    @property
    def steps(self) -> "DataFrame":
        """A row for each step: state, seconds, memory.

        >>> run.steps.step.iloc[0]
        'example_gen'
        """
        return steps_frame(self._stored.steps.values())

    @property
    def tables(self) -> "DataFrame":
        """A row for each embedding table after training: rows, bytes, admitted and removed ids.

        >>> bool((run.tables.rows > 0).all())
        True
        """
        training = self._stored.record.training if self._stored.record else None
        return tables_frame(training.tables if training else {})

    @cached_property
    def model(self) -> str | None:
        """The path or address of its model: the pushed version, else the exported one, blessed or refused.

        None: it has none, or it was removed or withdrawn since.

        >>> Path(run.model, "saved_model.pb").exists()
        True
        """
        record = self._stored.record
        if record and record.pushed:
            path = record.pushed.path
            place = path if is_stored(path) else str(shadow.place_of(Path(path)))
            return place if is_stored(place) or Path(place).is_dir() else None
        return str(folder) if (folder := self._outputs.get("model")) else None

    @property
    def page(self) -> Path | None:
        """The file of its page, `report.html`, which needs no network; None: it has none yet.

        >>> run.page.name
        'report.html'
        """
        return page if (page := self._stored.folder.page).is_file() else None

    def why(self) -> str:
        """Returns why it failed or its model was refused, with advice, as `sangam why` prints it.

        >>> print(run.why().splitlines()[0].split(" ", 1)[1])
        pushed as version 20240520001: every gate passed
        """
        return "\n".join(reason_of(self._stored).lines(self._stored))

    @cached_property
    def _outputs(self) -> Mapping[str, Path]:
        """Existing folders of the outputs of its steps, by the output's name."""
        return {output.key: output.path for output in read_shown(self._stored).outputs if output.path.is_dir()}

    @cached_property
    def _tasks(self) -> Mapping[str, TaskVerdict]:
        record, folder = self._stored.record, self._outputs.get("evaluation")
        verdict = folder / evaluation.FILE_NAME if folder else None
        if verdict and verdict.is_file():
            return Verdict.model_validate_json(verdict.read_bytes()).tasks
        return record.tasks if record else {}

    def __repr__(self) -> str:
        date = f", {self.date}" if self.date else ""
        return f"Run({self.id}, {self.ranker or 'unknown ranker'}{date}, {outcome_of(self._stored).headline})"

    def _repr_html_(self) -> str:
        """Returns the page in a frame for a notebook; without one, the outcome in a sentence."""
        if self.page is None:
            return f"<p>{html.escape(f'{self!r}: {outcome_of(self._stored).sentence}')}</p>"
        # Sandboxed: a page has no scripts, and needs none.
        page = html.escape(self.page.read_text(encoding="utf-8"))
        style = f"width:100%;height:{_FRAME_PX}px;border:1px solid #ccc"
        return f'<iframe sandbox title="{html.escape(self.id)}" style="{style}" srcdoc="{page}"></iframe>'

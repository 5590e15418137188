"""Checks a served model stage by stage, so that a refusal lists all its reasons."""

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from sangam.components.reports.serving import Check
from sangam.components.steps.infra_validator.bounds import MEASUREMENTS, Latency, latency_check, least
from sangam.components.steps.infra_validator.hostile import CLEAN_CODES, HostileRequest, hostile_requests
from sangam.components.steps.infra_validator.load import Connect, load_requests, measure
from sangam.components.steps.infra_validator.predict import Ask, RequestFailed
from sangam.components.steps.infra_validator.rows import (
    Description,
    Rows,
    Unfit,
    example_inputs,
    num_rows,
    rank_inputs,
    read_rows,
    select,
    with_once,
)
from sangam.components.steps.infra_validator.scores import Scores, not_finite, scores_check, wrong_outputs
from sangam.schemas.contracts.export import RANK, SERVE, TABLE_SIZE
from sangam.schemas.spec.serving import Serving

_LOG = logging.getLogger(__name__)
HOSTILE_ROWS = 4


@dataclass(frozen=True)
class Reference:
    """Examples and the scores that the model must give them.

    Attributes:
        examples: serialized examples.
        scores: expected scores.
        whose: source of the scores, for messages: `the trainer's`.
    """

    examples: list[bytes]
    scores: Scores
    whose: str


@dataclass
class Examination:
    """The checks of one model, in stages; they end early if the server ends.

    Attributes:
        connect: opens a connection to the server.
        description: description of the model.
        reference: real examples with their expected scores.
        serving: bounds.
        once: columns of which a request has one row for all candidates.
        checks: results so far.
        notes: omitted checks with their reasons.
        latency: latency; None until it is measured.
    """

    connect: Connect
    description: Description
    reference: Reference
    serving: Serving
    once: Sequence[str]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    latency: Latency | None = None

    def run(self) -> None:
        """Runs all checks."""
        stages: dict[str, Callable[[Ask], Iterator[Check]]] = {
            SERVE: self._examples,
            RANK: self._rank,
            "broadcast": self._broadcast,
            "hostile requests": self._hostile,
            "latency": self._latency,
        }
        with self.connect() as ask:
            for number, (name, stage) in enumerate(stages.items(), start=1):
                try:
                    for check in stage(ask):
                        _LOG.info("check=%r passed=%s reason=%r", check.name, check.passed, check.reason)
                        self.checks.append(check)
                except RequestFailed as error:
                    self.checks.append(Check(name=name, passed=False, reason=f"an ordinary request failed: {error}"))
                except Unfit as error:
                    self.checks.append(Check(name=name, passed=False, reason=str(error)))
                    left = list(islice(stages, number, None))
                    if left:
                        self.notes.append(f"not checked after that: {', '.join(left)}")
                    return

    def _examples(self, ask: Ask) -> Iterator[Check]:
        reference = self.reference
        served = ask(SERVE, example_inputs(reference.examples))
        yield from self._scored(SERVE, served, len(reference.examples))
        what = f"{SERVE}'s scores of {len(reference.examples)} evaluation examples"
        yield scores_check("scores", what, served, reference.scores, reference.whose)

    def _rank(self, ask: Ask) -> Iterator[Check]:
        rows = self._rows
        served = ask(RANK, rank_inputs(rows, self.description.columns))
        yield from self._scored(RANK, served, num_rows(rows))
        what = f"{RANK}'s scores of {num_rows(rows)} evaluation examples"
        yield scores_check(RANK, what, served, self.reference.scores, self.reference.whose)

    def _broadcast(self, ask: Ask) -> Iterator[Check]:
        rows = self._rows
        broadcast, repeated = with_once(rows, self.once or sorted(self.description.columns)[:1])
        columns = self.description.columns
        once, again = (ask(RANK, rank_inputs(rows_, columns)) for rows_ in (broadcast, repeated))
        what = f"{RANK}'s scores of {num_rows(rows)} candidates with one context row"
        yield scores_check("broadcast", what, once, again, "those with the row repeated")

    def _hostile(self, ask: Ask) -> Iterator[Check]:
        rows = self._rows
        rows = select(rows, range(min(HOSTILE_ROWS, num_rows(rows))))
        before = self._ordinary(ask)
        tables = self._table_sizes(ask)
        for kind, requests in groupby(hostile_requests(rows, self.description), key=lambda request: request.kind):
            answers = [self._answer(ask, request) for request in requests]
            after = scores_check("", "ordinary scores", self._ordinary(ask), before, "those before")
            wrong = [text for text, is_wrong in answers if is_wrong] + (
                [] if after.passed else [f"then {after.reason}"]
            )
            reason = "; ".join(wrong) if wrong else "; ".join(dict.fromkeys(text for text, _ in answers))
            yield Check(name=f"hostile: {kind}", passed=not wrong, reason=reason)
        if tables is None:
            self.notes.append(f"the model has no signature {TABLE_SIZE}: whether requests insert ids was not checked")
            return
        tables_after = self._table_sizes(ask)
        reason = (
            "no request changed a table" if tables_after == tables else f"rows before {tables}, after {tables_after}"
        )
        yield Check(name="tables", passed=tables_after == tables, reason=reason)

    def _latency(self, ask: Ask) -> Iterator[Check]:
        del ask  # Each client opens its own connection.
        requests = load_requests(self._rows, self.description.columns, self.once, self.serving.load.candidates)
        measured: list[Latency] = []
        while len(measured) < MEASUREMENTS:
            measured.append(measure(self.connect, requests, self.serving.load))
            check = latency_check(measured, self.serving)
            if check is None or check.passed:
                break
        self.latency = least(measured)
        if check is not None:
            yield check

    @functools.cached_property
    def _rows(self) -> Rows:
        return read_rows(self.reference.examples, self.description.columns)

    def _scored(self, signature: str, served: Scores, count: int) -> Iterator[Check]:
        wrong = wrong_outputs(served, self.description.ranker.tasks, count)
        right = f"{signature} gives {', '.join(self.description.ranker.tasks)}, float32 of {[count, 1]}"
        reason = f"{signature}: {'; '.join(wrong)}" if wrong else right
        yield Check(name=f"{signature} outputs", passed=not wrong, reason=reason)
        bad = not_finite(served)
        counted = ", ".join(f"{number} of {task}" for task, number in bad.items())
        reason = f"{signature}: not finite: {counted}, of {count} examples" if bad else f"all {count} are finite"
        yield Check(name=f"{signature} finite", passed=not bad, reason=reason)

    def _ordinary(self, ask: Ask) -> Scores:
        return ask(SERVE, example_inputs(self.reference.examples[:HOSTILE_ROWS]))

    def _table_sizes(self, ask: Ask) -> dict[str, int] | None:
        if TABLE_SIZE not in self.description.signatures:
            return None
        return {group: int(rows) for group, rows in ask(TABLE_SIZE, {}).items()}

    def _answer(self, ask: Ask, request: HostileRequest) -> tuple[str, bool]:
        """Returns a description of the answer to a hostile request, and whether the answer is wrong."""
        try:
            served = ask(request.signature, request.tensors)
        except RequestFailed as error:
            wrong = request.must_score or error.code not in CLEAN_CODES
            return f"{request.signature} refused it with {error if wrong else error.code}", wrong
        except Unfit as error:
            raise Unfit(f"{request.kind}, {request.signature}: {error}") from None
        bad = not_finite(served)
        if bad:
            return f"{request.signature} gave scores that are not finite: {', '.join(bad)}", True
        return f"{request.signature} gave finite scores", False

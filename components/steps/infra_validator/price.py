"""Measures what requests cost, in processor time of the server, beside the live version in the same check."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sangam.components.reports.serving import Check
from sangam.components.steps.infra_validator.load import WARM_UP_REQUESTS, load_requests, measure
from sangam.components.steps.infra_validator.predict import RequestFailed
from sangam.components.steps.infra_validator.rows import Tensors, Unfit, read_description, read_rows
from sangam.components.steps.infra_validator.server_process import Server, serve
from sangam.schemas.spec.release import Evaluation
from sangam.schemas.spec.serving import Load, Serving

_LOG = logging.getLogger(__name__)
_ROUNDS = 3
"""Measurements of each side, in turn. The best counts: other work on the machine makes requests dearer, not cheaper."""


@dataclass(frozen=True)
class Live:
    """The version that the candidate would replace.

    Attributes:
        name: its version, or where it was not pushed its model.
        model_dir: folder of its SavedModel.
    """

    name: str
    model_dir: Path


@dataclass(frozen=True)
class Price:
    """Candidates that one core answers in a second.

    Attributes:
        rate: of the candidate.
        live_rate: of the live version, in turn with it; None: not measured.
        note: why it was not.
    """

    rate: float
    live_rate: float | None = None
    note: str = ""


@dataclass(frozen=True)
class _Side:
    server: Server
    requests: Sequence[Tensors]


def measure_price(
    server: Server,
    model_dir: Path,
    live: Live | None,
    examples: Sequence[bytes],
    serving: Serving,
    *,
    evaluation: Evaluation,
    log: Path,
) -> Price:
    """Returns the rates of a candidate, and of the live version.

    Args:
        server: server of the candidate.
        model_dir: folder of the candidate's SavedModel.
        live: the live version; None: there is none.
        examples: serialized examples, of whose rows the requests of both are made.
        serving: load, and time limit.
        evaluation: settings with the features that one request shares.
        log: file to which the output of the other server is appended.

    Raises:
        RequestFailed, Unfit: of the candidate.
    """
    load = serving.load.model_copy(update={"seconds": serving.load.seconds / _ROUNDS})
    candidate = _side(server, model_dir, examples, evaluation, load)
    with ExitStack() as stack:
        other, note = None, "" if live else "there is no live version: the price was compared with none"
        if live:
            try:
                started = stack.enter_context(serve(live.model_dir, log=log, load=load, timeout_s=serving.timeout_s))
                other = _side(started, live.model_dir, examples, evaluation, load)
                _rate(other, load)
            except (Unfit, RequestFailed) as error:
                other, note = None, f"the live version {live.name} could not be measured beside the model: {error}"
        rates, live_rates = [], []
        for _ in range(_ROUNDS):
            rates.append(_rate(candidate, load))
            if other:
                live_rates.append(_rate(other, load))
    _LOG.info("candidates_per_core_s=%s live=%s", rates, live_rates)
    return Price(max(rates), max(live_rates, default=None), note)


def price_check(price: Price, live: Live | None, max_increase: float | None) -> Check | None:
    """Checks what the model costs more than the live version; None without a bound or a live version."""
    if max_increase is None or live is None or price.live_rate is None:
        return None
    increase = price.live_rate / price.rate - 1
    passed = increase <= max_increase
    relation = "at most" if passed else "above"
    rates = f"{price.rate:,.0f} and {price.live_rate:,.0f} candidates a second of a core"
    return Check(
        name="price",
        passed=passed,
        reason=(
            f"serving costs {increase:+.1%} beside the live version {live.name}, {relation} the gate's max_increase "
            f"{max_increase:.1%} ({rates})"
        ),
    )


def _side(server: Server, model_dir: Path, examples: Sequence[bytes], evaluation: Evaluation, load: Load) -> _Side:
    description = read_description(model_dir)
    rows = read_rows(examples, description.columns)
    return _Side(server, load_requests(rows, description.columns, description.once(evaluation), load.candidates))


def _rate(side: _Side, load: Load) -> float:
    before = side.server.core_s()
    answered = measure(side.server.connect, side.requests, load).requests + WARM_UP_REQUESTS * load.clients
    return answered * load.candidates / max(side.server.core_s() - before, 1e-3)

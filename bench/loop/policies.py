"""What other orders of the same candidates would have got: known probabilities need no clicks to compare them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.loop.programs import Server
from bench.loop.tables import Inputs, day_of
from bench.loop.traffic import Answer
from bench.loop.world import Floats, examined, expected_clicks

_REQUESTS_AT_ONCE = 40
_OF_USER = ("user_id", "language", "asked_at", "liked", "liked_length")
POLICIES = ("random", "popularity", "frozen", "daily", "served", "oracle")


def scores_of(server: Server, answers: Sequence[Answer]) -> list[Floats]:
    """Returns what a server scores the candidates of requests, many requests at once."""
    found: list[Floats] = []
    for start in range(0, len(answers), _REQUESTS_AT_ONCE):
        part = answers[start : start + _REQUESTS_AT_ONCE]
        scores = np.array(server.scores(joined([answer.inputs for answer in part], len(part[0].order))))
        found += list(scores.reshape(len(part), -1))
    return found


def joined(inputs: Sequence[Inputs], num_candidates: int) -> Inputs:
    """Returns the inputs of requests as those of one, with a value for each candidate."""
    rows = [{**each, **{name: each[name] * num_candidates for name in _OF_USER}} for each in inputs]
    result: Inputs = {name: [value for each in rows for value in each[name]] for name in inputs[0]}
    widest = max(map(len, result["liked"]))
    result["liked"] = [[*each, *[""] * (widest - len(each))] for each in result["liked"]]
    return result


def by_day(answer: Answer) -> str:
    """Groups answers by their days."""
    return day_of(answer.at_s)


def by_bug(answer: Answer) -> str:
    """Groups answers by whether the inputs were wrong."""
    return "with a bug" if answer.has_bug else "without"


def rates(
    answers: Sequence[Answer],
    shown: int,
    scores: Mapping[str, Mapping[str, Floats]],
    group_of: Callable[[Answer], str] = by_day,
) -> dict[str, dict[str, float]]:
    """Returns by group the share of shown posts that are clicked on, by each policy; requests without exploration.

    Args:
        answers: what was answered.
        shown: number of posts that are shown of a request.
        scores: scores of other policies, by name and request.
        group_of: returns the group of an answer.
    """
    groups: dict[str, dict[str, list[float]]] = {}
    for answer in answers:
        if answer.is_explored:
            continue
        group = groups.setdefault(group_of(answer), {name: [] for name in POLICIES})
        for name, clicks in _clicks(answer, shown, scores):
            group[name].append(clicks / shown)
    return {
        name: {policy: float(np.mean(values)) for policy, values in found.items() if values}
        for name, found in sorted(groups.items())
    }


def _clicks(answer: Answer, shown: int, scores: Mapping[str, Mapping[str, Floats]]) -> Iterator[tuple[str, float]]:
    true = answer.probabilities
    yield "random", float(true.mean() * examined(shown).sum())
    yield "popularity", expected_clicks(true, np.argsort(-answer.popularity, kind="stable"), shown)
    for name, of_requests in scores.items():
        if answer.request_id in of_requests:
            order = np.argsort(-of_requests[answer.request_id], kind="stable")
            yield name, expected_clicks(true, order, shown)
    yield "served", expected_clicks(true, answer.order, shown)
    yield "oracle", expected_clicks(true, np.argsort(-true), shown)


def replayed(versions: Mapping[str, Path], answers: Sequence[Answer], logs: Path) -> dict[str, dict[str, Floats]]:
    """Returns the scores of the first daily version for all requests, and of each day's for those of the day after.

    Args:
        versions: copies of the versions as they were pushed, each in a folder of its own, by the day that they serve.
        answers: what was answered.
        logs: folder for the servers' output.
    """
    scores: dict[str, dict[str, Floats]] = {"frozen": {}, "daily": {}}
    wanted = [answer for answer in answers if not answer.is_explored]
    for number, (day, folder) in enumerate(sorted(versions.items())):
        if number and not _of_day(wanted, day):
            continue
        server = Server(logs, f"again-{day}", folder, None)
        try:
            server.wait_until_ready()
            for name, of in (("frozen", wanted if number == 0 else []), ("daily", _of_day(wanted, day))):
                found = scores_of(server, of)
                scores[name] |= {answer.request_id: each for answer, each in zip(of, found, strict=True)}
        finally:
            server.program.end()
    return scores


def _of_day(answers: Sequence[Answer], day: str) -> list[Answer]:
    return [answer for answer in answers if day_of(answer.at_s) == day]

"""When a rank gives up waiting for an input service, by a clock and answers of the test."""

from contextlib import ExitStack

from sangam.trainer_module.input.service_watch import ServiceWatch


def _given_up_at(spells: str, *, answers: str) -> list[int]:
    """Returns when a watch with 5 s of patience gave up, of the seconds in which the rank waited (w) or trained (t).

    Answers are those of the service in these seconds: y or n.
    """
    given_up = []
    now = 0
    watch = ServiceWatch(
        "service:1",
        5.0,
        lambda trouble: given_up.append(now),
        clock=lambda: float(now),
        trouble=lambda address: None if answers[now] == "y" else "silent",
    )
    spell = ExitStack()
    for second, does in enumerate(spells):
        now = second
        if does == "t":
            spell.close()
        elif second == 0 or spells[second - 1] == "t":
            spell.enter_context(watch.waiting())
        watch.look()
    return given_up


def test_a_service_that_is_silent_while_a_rank_waits_is_given_up() -> None:
    assert _given_up_at("twwwwwwwwww", answers="nnnnnnnnnnn")[0] == 8  # Waits from 1, is asked from 3 on.


def test_a_service_that_answers_is_waited_for() -> None:
    assert _given_up_at("twwwwwwwwww", answers="yyyyyyyyyyy") == []
    assert _given_up_at("twwwwwwwwww", answers="nnnnnnynnnn") == []


def test_a_rank_that_trains_asks_nobody() -> None:
    assert _given_up_at("ttttttttttt", answers="nnnnnnnnnnn") == []
    assert _given_up_at("twwwwwtwwww", answers="nnnnnnnnnnn") == []

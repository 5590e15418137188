"""The slope of a server's memory."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

MIB = 2**20


def test_the_slope_leaves_out_the_first_quarter_and_the_moments_of_a_swap() -> None:
    from bench.soak import summary

    def size(at: int) -> int:
        reserved = 0 if at < 300 else 400
        swapping = 100 if at % 30 == 0 else 0
        return (reserved + swapping + at // 60) * MIB

    numbers = summary([(float(at), size(at)) for at in range(0, 1200, 5)])
    assert numbers["slope_mib_per_hour"] == pytest.approx(60)
    assert numbers["growth"] == pytest.approx(14 / 405)
    assert (numbers["least_mib"], numbers["most_mib"]) == (405, 519)

"""Every number counts once, in whatever order it comes."""

import random

import pytest

from sangam.trainer_module.parameter_server.window import MOST_OPEN, Window


@pytest.mark.parametrize("seed", range(20))
def test_each_number_is_new_once_whatever_the_order_and_the_repetitions(seed: int) -> None:
    draw = random.Random(seed)
    numbers = [number for number in range(60) for _ in range(draw.randint(1, 3))]
    draw.shuffle(numbers)
    window, seen = Window(), set[int]()
    for number in numbers:
        assert (number in window) == (number in seen)
        assert window.add(number) == (number not in seen)
        seen.add(number)
        assert window.count == len(seen)
    assert window.count == 60
    assert not any(window.add(number) for number in numbers)


def test_numbers_in_order_take_no_memory_and_overtaking_is_bounded() -> None:
    window = Window()
    for number in range(3 * MOST_OPEN):
        assert window.add(number)
    window = Window()
    for number in range(1, MOST_OPEN + 1):
        assert window.add(number)
    with pytest.raises(ValueError, match=f"{MOST_OPEN + 1} calls overtook number 0"):
        window.add(MOST_OPEN + 1)

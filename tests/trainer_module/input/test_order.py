"""Who reads what, and in which order: plain data, no TensorFlow."""

import json
from collections import Counter
from itertools import chain

import pytest

from sangam.schemas.contracts.example_files import by_day, day_of, file_name
from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec, Spec
from sangam.schemas.spec.training import ORDER_OF_DAYS, Order
from sangam.trainer_module.input.order import Segment, files_of_rank, order_of, parts_of_pool, sweeps_of, whole
from tests.errors import place_and_value
from tests.schemas.sample_specs import changed

DAYS = [f"2024-02-{day}" for day in range(25, 30)]


def files(days: list[str], each: int = 1) -> list[str]:
    """Returns `each` files a day, in the order of another world."""
    return sorted((f"/x/{file_name(day, number, 0)}" for day in days for number in range(each)), key=lambda f: f[::-1])


def test_a_files_name_says_its_day_and_sorts_in_the_order_of_the_logs() -> None:
    assert day_of("/a/2024-01-01/" + file_name("2024-02-29", 3, 0)) == "2024-02-29"
    assert day_of(file_name(None, 3, 0)) == day_of("part-0.gz") == ""
    places = [("2024-02-28", 9, 1), ("2024-02-29", 10, 0), ("2024-02-29", 10, 1), ("2024-02-29", 11, 0)]
    names = [file_name(*place) for place in places]
    assert sorted(names) == names
    assert by_day(reversed(names)) == {"2024-02-28": names[:1], "2024-02-29": names[1:]}


def declared(**training: object) -> RankerSpec:
    document = changed({f"training.{name}": value for name, value in training.items()})
    return Spec.model_validate_json(json.dumps(document)).ranker()


def test_without_days_only_shuffled_is_possible() -> None:
    some, none = files(DAYS), ["part-0.gz", "part-1.gz"]
    assert order_of(declared(), some) == ORDER_OF_DAYS
    assert order_of(declared(), none) == "shuffled"
    assert order_of(declared(order="time"), some) == "time"
    assert order_of(declared(shuffle_buffer=1), some) == order_of(declared(shuffle_buffer=1), none) == "time"
    with pytest.raises(UserError, match=place_and_value("training.order", "(got shuffled_within_day)")):
        order_of(declared(order="shuffled_within_day"), [*some, *none])


def days_of(part: tuple[Segment, ...]) -> list[str]:
    return [day_of(segment.files[0]) for segment in part]


@pytest.mark.parametrize("order", ["time", "shuffled_within_day"])
def test_in_the_order_of_days_a_segment_is_a_day(order: Order) -> None:
    part = whole(files(DAYS, each=3), order, seed=7)
    assert days_of(part) == DAYS
    assert all(len({day_of(file) for file in segment.files}) == 1 for segment in part)
    in_order = [file for segment in part for file in segment.files]
    assert (in_order == sorted(files(DAYS, each=3))) == (order == "time")


def test_shuffled_is_one_segment_in_an_order_of_its_own() -> None:
    [segment] = whole(files(DAYS, each=3), "shuffled", seed=7)
    assert Counter(segment.files) == Counter(files(DAYS, each=3))
    assert whole(files(DAYS, each=3), "shuffled", seed=8) != (segment,)
    assert len({day_of(file) for file in segment.files[:5]}) > 2


@pytest.mark.parametrize("order", ["time", "shuffled_within_day", "shuffled"])
@pytest.mark.parametrize("each", [1, 2, 7])
@pytest.mark.parametrize("days", [DAYS[:1], DAYS])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_parts_of_a_pool_hold_every_record_once(order: Order, each: int, days: list[str], workers: int) -> None:
    parts = parts_of_pool(files(days, each), order, 7, workers)
    read = Counter(
        (file, segment.share, segment.shares) for part in parts for segment in part for file in segment.files
    )
    shares = {(file, shares) for file, _, shares in read}
    assert Counter(file for file, _ in shares) == Counter(files(days, each))
    assert read == Counter((file, share, shares) for file, shares in shares for share in range(shares))


@pytest.mark.parametrize("order", ["time", "shuffled_within_day"])
def test_parts_that_are_read_at_the_same_time_are_of_the_same_days(order: Order) -> None:
    parts = parts_of_pool(files(DAYS, each=3), order, 7, workers=2)
    assert len(parts) == 8
    together = [parts[first : first + 2] for first in range(0, 8, 2)]
    assert all(days_of(one) == days_of(other) for one, other in together)
    assert list(chain(*(days_of(one) for one, _ in together))) == DAYS


@pytest.mark.parametrize("each", [1, 4])
def test_shuffled_every_part_of_a_pool_has_of_many_days(each: int) -> None:
    for part in parts_of_pool(files(DAYS, each), "shuffled", 7, workers=2):
        assert len({day_of(file) for segment in part for file in segment.files}) >= 2


def test_no_rank_reads_a_file_that_others_can_read_alone() -> None:
    assert [files_of_rank("abcde", rank, 2).files for rank in (0, 1)] == [("a", "c", "e"), ("b", "d")]
    assert [files_of_rank("ab", rank, 5) for rank in range(5)] == [
        Segment(("a",), 3, 0),
        Segment(("b",), 2, 0),
        Segment(("a",), 3, 1),
        Segment(("b",), 2, 1),
        Segment(("a",), 3, 2),
    ]


def test_each_sweep_has_every_so_many_th_day_and_the_last_ends_with_the_newest() -> None:
    part = whole(files(DAYS), "time", seed=7, sweeps=2)
    assert days_of(part) == ["2024-02-26", "2024-02-28", "2024-02-25", "2024-02-27", "2024-02-29"]
    assert days_of(whole(files(DAYS[:2]), "time", seed=7, sweeps=4)) == DAYS[:2]
    pool = parts_of_pool(files(DAYS, each=2), "time", 7, workers=2, sweeps=2)
    assert [days_of(each) for each in pool] == [DAYS[1:4:2]] * 2 + [DAYS[::2]] * 2


def test_only_epochs_after_the_first_have_several_sweeps() -> None:
    spec = declared(early_stopping={"per_epoch": 4}, epochs=3)
    assert [sweeps_of(spec, epoch) for epoch in range(3)] == [1, 4, 4]
    assert sweeps_of(declared(epochs=3), 2) == 1

"""Who takes part: a process that was away too long does not, and its replacement does from the next generation on."""

from trainer_module.parameter_server.members import GRACE_S, Members

OLD, NEW, LATE = 11, 22, 33


class _Ranks:
    """Members of three ranks, each here as the process that has ten times its number, and a clock."""

    def __init__(self, *, may_leave: bool = True) -> None:
        self.now = 0.0
        self.members = Members(3, may_leave=may_leave, clock=lambda: self.now)
        for rank in range(3):
            self.members.arrive(rank, self.process(rank))

    def process(self, rank: int) -> int:
        return 10 * rank

    def lose(self, rank: int) -> list[int]:
        self.members.break_off(rank, self.process(rank))
        self.now += GRACE_S
        return self.members.lost()

    def place(self, rank: int, process: int) -> tuple[int, list[int]] | None:
        return self.members.takes_part(rank, process, patience_s=0.0)


def test_all_that_are_expected_take_part_at_once() -> None:
    ranks = _Ranks()
    assert [ranks.place(rank, ranks.process(rank)) for rank in range(3)] == [(0, [0, 1, 2])] * 3
    assert ranks.members.lost() == []


def test_a_rank_has_left_once_its_call_was_broken_off_for_too_long() -> None:
    ranks = _Ranks()
    ranks.members.break_off(1, ranks.process(1))
    ranks.now += GRACE_S / 2
    assert ranks.members.lost() == []
    ranks.members.arrive(1, ranks.process(1))  # A connection was lost, not a process.
    ranks.now += GRACE_S
    assert ranks.members.lost() == []
    assert ranks.lose(1) == [1]
    assert ranks.members.lost() == []
    assert ranks.members.here == {0, 2}


def test_the_leader_never_leaves_and_nobody_does_where_the_others_cannot_go_on() -> None:
    ranks = _Ranks()
    assert ranks.lose(0) == []
    assert ranks.members.here == {0, 1, 2}
    assert _Ranks(may_leave=False).lose(1) == []


def test_a_replacement_waits_until_its_place_is_free_and_the_ranks_take_it_in() -> None:
    ranks = _Ranks()
    ranks.members.arrive(1, NEW)
    assert not ranks.members.can_take_in  # The rank may still train.
    assert ranks.lose(1) == [1]
    assert ranks.members.can_take_in
    assert ranks.place(1, NEW) is None
    # Every rank says so, and it happens once.
    assert [ranks.members.take_in(0) for _ in range(2)] == [(1, [0, 1, 2])] * 2
    assert ranks.place(1, NEW) == (1, [0, 1, 2])
    assert not ranks.members.can_take_in


def test_a_replacement_that_is_lost_while_it_waits_is_not_taken_in() -> None:
    ranks = _Ranks()
    ranks.lose(1)
    ranks.members.arrive(1, OLD)
    ranks.members.break_off(1, OLD)
    ranks.now += GRACE_S
    assert ranks.members.lost() == []
    assert not ranks.members.can_take_in
    assert ranks.members.take_in(0) == (1, [0, 2])
    # The next one can be.
    ranks.members.arrive(1, NEW)
    assert ranks.members.take_in(1) == (2, [0, 1, 2])


def test_one_place_is_taken_once_by_who_came_last() -> None:
    ranks = _Ranks()
    ranks.lose(2)
    for process in (OLD, NEW, LATE):
        ranks.members.arrive(2, process)
    ranks.members.take_in(0)
    assert [ranks.place(2, process) for process in (OLD, NEW, LATE)] == [None, None, (1, [0, 1, 2])]
    # The end of a process that has no place ends nobody else's.
    ranks.members.break_off(2, OLD)
    ranks.now += GRACE_S
    assert ranks.members.lost() == []
    assert ranks.members.here == {0, 1, 2}

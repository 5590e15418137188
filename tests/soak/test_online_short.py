"""A short soak of online training, of every run of the tests: what `make soak-online` does for long."""

from pathlib import Path

import pytest

from tests.kafka.broker import running
from tests.soak.online import books
from tests.soak.online.__main__ import Soak, refuse_unbalanced
from tests.soak.online.programs import KINDS
from tests.soak.online.world import SoakWorld

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1200)]

_QUICK = {
    "sync": {"rows_every_s": 1, "dense_every_s": 3, "full_every": 100},
    "checkpoint_every_s": 2,
    "joining": {"lateness_s": 5, "settle_s": 0.1, "segment_every_s": 0.5, "idle_s": 20},
}


def test_everything_is_joined_trained_on_and_served_once_although_each_program_and_the_broker_are_killed(
    tmp_path: Path,
) -> None:
    world = SoakWorld(tmp_path, online=_QUICK)
    with running(tmp_path / "broker") as broker:
        soak = Soak(world, broker, seed=1, rows_per_s=40)
        try:
            soak.run(soak.kill_each_once)
            assert soak.programs.kills == dict.fromkeys(KINDS, 1)
            scores, _ = refuse_unbalanced(world, soak)
            assert scores == 4 * len(soak.feed.truth.views)
            # The books can tell.
            lost = next(iter(soak.feed.truth.views))
            soak.feed.truth.views["never joined"] = soak.feed.truth.views.pop(lost)
            with pytest.raises(AssertionError, match="1 views are in no segment, such as \\['never joined'\\]"):
                books.refuse_wrong_joins(world, soak.feed.truth)
        finally:
            soak.programs.end()

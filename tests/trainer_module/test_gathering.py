"""Ranks of one machine read each other's texts in a folder."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sangam.schemas.errors import UserError
from sangam.trainer_module.collectives import gathering
from sangam.trainer_module.collectives.gathering import Gathering
from tests.errors import tells

pytestmark = pytest.mark.slow


def test_every_rank_reads_all_texts_in_rank_order_in_each_round(tmp_path: Path) -> None:
    ranks = [Gathering(tmp_path, rank, 3) for rank in range(3)]
    with ThreadPoolExecutor(3) as threads:
        for said in ("first", "second"):
            read = threads.map(lambda rank, said=said: ranks[rank].texts(f"{said} of {rank}"), range(3))
            assert list(read) == [[f"{said} of {rank}" for rank in range(3)]] * 3


def test_a_rank_that_does_not_come_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_LONGEST_S", 0.1)
    with pytest.raises(UserError) as raised:
        Gathering(tmp_path, 0, 2).texts("here")
    assert tells(str(raised.value), "training", f"rank 1 ... {tmp_path}")

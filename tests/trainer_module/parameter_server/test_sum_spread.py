"""A sum over several servers, one of which lacks the part of a rank that is lost."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer_module.parameter_server.sample_servers import made_job, on_ranks, serving
from tests.trainer_module.parameter_server.sample_shards import STALE, spec_of
from trainer_module.parameter_server.client import Servers
from trainer_module.parameter_server.dense_part import part_of
from trainer_module.parameter_server.members import GRACE_S

pytestmark = pytest.mark.slow

RANKS, SIZE, PROCESS = 3, 6, 7


def test_all_servers_add_up_the_parts_of_the_same_ranks(tmp_path: Path) -> None:
    made = made_job(tmp_path, spec_of(STALE, ranks=RANKS, servers=2, data_workers=1), ())
    with serving(made, "0") as (services, addresses):

        def sum_of(rank: int, servers: Servers) -> Any:
            part = np.full([SIZE], 10.0**rank, np.float32)
            if rank < 2:
                return servers.sum_spread(part, "dense").tolist()
            # Its part reaches the first server alone.
            mine = part_of(SIZE, 0, 2)
            ranks = servers._finish_meeting(servers._begin_meeting(servers.first, part[mine], "sum", "dense"))[1]
            assert ranks == set(range(RANKS))
            services[0]._members.arrive(rank, PROCESS)
            services[0]._members.break_off(rank, PROCESS)
            time.sleep(GRACE_S)
            services[0].look()
            return None

        assert on_ranks(RANKS, addresses, "0", sum_of) == [[11.0] * SIZE, [11.0] * SIZE, None]

"""The section `monitoring`: what it may say, and that it changes no digest."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.contracts.monitoring import POD_PORT, from_variables, in_pods, on_this_machine, variables
from sangam.schemas.problems import SpecError
from sangam.schemas.spec import digest
from tests.errors import tells
from tests.schemas.sample_specs import loaded

PODS = {"kind": "jobset", "ranks_per_host": 2}
VOLUMES = {"data": {"claim": "shared", "path": "/data"}}


def test_endpoints_change_no_digest(tmp_path: Path) -> None:
    plain, told = loaded(tmp_path), loaded(tmp_path, {"monitoring": {"port": 9400}})
    assert plain.monitoring is None
    assert told.monitoring
    assert told.monitoring.port == 9400
    assert digest(told) == digest(plain)
    assert digest(told.ranker()) == digest(plain.ranker())
    assert told.ranker().model_dump_json() == plain.ranker().model_dump_json()


def test_the_section_alone_is_enough(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"monitoring": {}})
    assert spec.monitoring
    assert spec.monitoring.port == 0


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"monitoring": {"port": -1}}, "monitoring.port", "(got -1)"),
        ({"monitoring": {"port": 65536}}, "monitoring.port", "(got 65536)"),
        ({"monitoring": {"host": "0.0.0.0"}}, "monitoring.host", "unknown key"),
        # Two ranks, a dispatcher and two workers.
        ({"monitoring": {"port": 65532}}, "monitoring.port", "(got 65532 for 5 processes)"),
        (
            {"monitoring": {"port": 5049}, "cluster": {"launcher": PODS, "volumes": VOLUMES}},
            "monitoring.port",
            "(got 5049 to 5050)",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, changes)
    assert tells(str(refused.value), place, value), str(refused.value)


def test_a_step_learns_of_it_by_its_environment_and_by_no_parameter(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"monitoring": {"port": 9400}})
    assert from_variables(variables(spec.monitoring)) == spec.monitoring
    assert from_variables(variables(None)) is None


def test_processes_take_ports_of_their_own(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"monitoring": {"port": 9400}})
    here, pods = on_this_machine(spec.monitoring, tmp_path, "sangam-trainer"), in_pods(spec.monitoring)
    assert here
    assert pods
    assert [here.rank_port(rank) for rank in range(2)] == [9400, 9401]
    assert here.ports(spec.cluster, 2) == (9400, 9401, 9402, 9403, 9404, 9405, 9406)
    assert [here.pool_port(spec.cluster, number) for number in range(3)] == [9402, 9403, 9404]
    assert [told.server_port(spec.cluster, 1) for told in (here, pods)] == [9406, 9400]
    assert (pods.rank_port(1), pods.targets, pods.target("a", "rank-0")) == (9401, "", None)
    any_free = loaded(tmp_path, {"monitoring": {}})
    free, fixed = on_this_machine(any_free.monitoring, tmp_path, "sangam-trainer"), in_pods(any_free.monitoring)
    assert free
    assert fixed
    assert (free.rank_port(1), free.pool_port(spec.cluster, 2), free.ports(spec.cluster, 2)) == (0, 0, ())
    assert fixed.port == POD_PORT

"""Modes and settings of `training.sync` that have no effect, or cannot work, are refused."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from sangam.schemas.spec.sync import MAX_SHARING
from tests.errors import tells
from tests.schemas.sample_specs import changed, loaded, write

GRADNORM = {"training.loss_balance": {"kind": "gradnorm"}}
FLOATS = {"features": {"age": {"kind": "numeric", "normalize": "zscore"}}, "tables": {}, "evaluation": {"slices": []}}
EMA = {"training.average": {"kind": "ema"}}
ONE_RANK = {"cluster": {"ranks": 1}}
ROOT = {"root": {"claim": "sangam", "path": "/sangam"}}
ON_TWO_HOSTS = {"cluster": {"ranks": 2, "launcher": {"kind": "jobset"}, "volumes": ROOT}}


def mode(kind: str, **settings: Any) -> dict[str, Any]:
    return {"training.sync": {"kind": kind, **settings}}


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"cluster": {"parameter_servers": 2}}, "cluster.parameter_servers", "(got 2)"),
        (mode("sync") | {"cluster": {"parameter_servers": 1}}, "cluster.parameter_servers", "(got 1)"),
        (mode("stale") | FLOATS, "training.sync.kind", "(got stale) ... shadow ... async"),
        (mode("shadow", staleness=4) | FLOATS, "training.sync.staleness", "(got 4)"),
        (mode("shadow", wire="float32") | FLOATS, "training.sync.wire", "(got float32)"),
        (mode("async", wire="float16") | FLOATS, "training.sync.wire", "(got float16)"),
        (mode("shadow") | GRADNORM, "training.loss_balance", "(got training.sync shadow, ... stale"),
        (mode("async") | GRADNORM, "training.loss_balance", "(got training.sync async, ... stale"),
        (mode("shadow") | EMA, "training.average", "(got training.sync shadow, ... stale"),
        (mode("async") | EMA, "training.average", "(got training.sync async, ... stale"),
        (mode("shadow") | ONE_RANK, "training.sync.kind", "(got shadow, and cluster.ranks 1)"),
        (mode("stale", compare_every_steps=1000) | ONE_RANK, "training.sync.compare_every_steps", "(got 1000)"),
        (mode("sync", transport="shared_memory") | ONE_RANK, "training.sync.transport", "(got shared_memory)"),
        (mode("sync", transport="tcp") | ONE_RANK, "training.sync.transport", "(got tcp)"),
        (
            mode("sync", transport="shared_memory") | ON_TWO_HOSTS,
            "training.sync.transport",
            "(got shared_memory, and 1 of 2 ranks on each host)",
        ),
        (mode("shadow", block_momentum=0.9), "training.sync.block_momentum", "easgd (got 0.9)"),
        (mode("shadow", algorithm="ma", block_momentum=0.5), "training.sync.block_momentum", "ma (got 0.5)"),
        (
            mode("shadow", every_steps=5, least_interval_s=0.5),
            "training.sync.least_interval_s",
            "(got 0.5, and every_steps 5)",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(changes)))
    assert tells(str(caught.value), place, value), str(caught.value)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    "changes",
    [
        mode("sync") | GRADNORM,
        mode("sync", transport="shared_memory") | {"cluster": {"ranks": 2}},
        mode("sync", transport="tcp") | ON_TWO_HOSTS,
        mode("sync", transport="shared_memory")
        | {"cluster": {"ranks": 2, "launcher": {"kind": "jobset", "ranks_per_host": 2}, "volumes": ROOT}},
        *(mode(kind) | {"cluster": {"parameter_servers": 3}} for kind in ("stale", "shadow", "async")),
        mode("stale", staleness=0, compare_every_steps=1) | GRADNORM,
        mode("stale") | ONE_RANK,
        mode("stale") | {"training.average": {"kind": "last"}},
        mode("async", staleness=0) | ONE_RANK,
        mode("shadow") | FLOATS,
        mode("async") | FLOATS,
        mode("shadow", algorithm="bmuf", block_momentum=0.9, least_interval_s=0.5),
        mode("shadow", algorithm="bmuf"),
        mode("shadow", every_steps=5, elastic_rate=1.0),
    ],
)
def test_what_can_work_is_taken(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert loaded(tmp_path, changes)


@pytest.mark.parametrize(
    ("declared", "ranks", "here", "transport"),
    [
        ({}, 2, 2, "shared_memory"),
        ({}, 2, 1, "tcp"),
        ({}, 64, 64, "shared_memory"),
        ({}, 65, 65, "tcp"),
        ({}, 1, 1, None),
        (mode("sync", transport="auto"), 4, 4, "shared_memory"),
        (mode("sync", transport="horovod"), 2, 2, "horovod"),
        (mode("sync", transport="tcp"), 2, 1, "tcp"),
        (mode("sync", transport="shared_memory"), 2, 2, "shared_memory"),
        (mode("stale"), 2, 2, None),
    ],
)
def test_ranks_share_memory_where_all_are_on_one_machine(
    tmp_path: Path, declared: dict[str, Any], ranks: int, here: int, transport: str | None
) -> None:
    spec = loaded(tmp_path, declared | {"cluster": {"ranks": ranks}})
    assert spec.transport(ranks_here=here) == transport


def test_as_many_ranks_share_memory_as_the_native_code_has_room_for(repository: Path) -> None:
    assert f"kMaxRanks = {MAX_SHARING}," in (repository / "trainer_module/native/shared_memory.cc").read_text()

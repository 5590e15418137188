import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.contest import Result
from bench.dimensions import BATCH_SIZE_PER_RANK, dense_weights, layers, multiply_adds, products
from bench.limit import limit_of
from bench.machine import Machine, machine_of
from bench.peers.plan import LIMIT, Memory, Turn, turns
from bench.peers.tables import best_peer, goals, speed_table
from bench.workload import ranker
from sangam.schemas.derived.sizes import dense_parts

pytestmark = [pytest.mark.slow, pytest.mark.long]


_MACHINE = Machine("EPYC", 2, "avx512f")


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "peers.json", _MACHINE)


def _took(memory: Memory, name: str, way: str, *seconds: float, repeat: int = 0) -> None:
    ranks = 1 if way == "apart" else int(way)
    results = [Result(ranks, [each], cpu_s=0.0, losses=[1.0, 1.0], precision="float32") for each in seconds]
    memory.add(Turn(repeat, name, way), list(map(dataclasses.asdict, results)))


def test_the_peers_model_has_as_many_dense_weights_as_ours() -> None:
    assert dense_weights() == sum(dense_parts(ranker()).values()) == 502_571


def test_a_step_multiplies_each_weight_thrice_for_an_example_but_those_of_given_inputs_twice() -> None:
    weights = {layer.name: layer.count * layer.inputs * layer.outputs for layer in layers()}
    of_given = 13 * (1024 + 12)
    assert multiply_adds(1) == 3 * sum(weights.values()) - of_given


def test_the_limit_takes_the_faster_library_for_each_product() -> None:
    counts = [product.count for product in products(BATCH_SIZE_PER_RANK)]
    slow: dict[str, Any] = {"products": {"float32": [2.0] * len(counts)}, "rows": {"adam": 1.0}}
    fast: dict[str, Any] = {"products": {"float32": [1.0] + [3.0] * (len(counts) - 1)}, "rows": {"adam": 2.0}}
    limit = limit_of([slow, fast], "float32", "adam")
    assert limit.rows_s == 1.0
    assert limit.dense_s == pytest.approx(1.0 + 2.0 * (sum(counts) - 1), rel=0.01)
    assert limit.examples_per_s == pytest.approx(BATCH_SIZE_PER_RANK / (limit.dense_s + 1.0))


def test_turns_are_taken_repeat_after_repeat_and_without_torch_where_there_is_none() -> None:
    taken = list(turns(2, (), with_torch=False))
    assert [turn.repeat for turn in taken] == sorted(turn.repeat for turn in taken)
    assert not [turn for turn in taken if turn.name.startswith("torch")]
    assert [turn.repeat for turn in taken if turn.name == LIMIT] == [0, 1]


def test_a_turn_is_not_taken_again_by_a_later_run(memory: Memory, tmp_path: Path) -> None:
    _took(memory, "sangam", "2", 0.1)
    later = Memory(tmp_path / "peers.json", _MACHINE)
    assert later.has(Turn(0, "sangam", "2"))
    assert not later.has(Turn(1, "sangam", "2"))
    assert later.results("sangam", "2") == memory.results("sangam", "2")


def test_results_of_another_machine_are_refused(memory: Memory, tmp_path: Path) -> None:
    _took(memory, "sangam", "2", 0.1)
    with pytest.raises(SystemExit, match="another machine"):
        Memory(tmp_path / "peers.json", dataclasses.replace(_MACHINE, units="avx512f, amx_bf16"))


def test_a_machine_is_described_by_its_processor_and_its_units() -> None:
    cpuinfo = "processor : 0\nmodel name\t: A: B\nflags\t\t: sse avx2 avx512f avx512_bf16\n\nprocessor : 1\n"
    assert machine_of(cpuinfo, 2) == Machine("A: B", 2, "avx2, avx512f, avx512_bf16")


def test_the_best_peer_has_the_precision_of_ours(memory: Memory) -> None:
    _took(memory, "tfra", "1", 0.3)
    _took(memory, "torch", "1", 0.2)
    _took(memory, "torchrec_bf16", "1", 0.1)
    assert best_peer(memory, "float32", "1") == "torch"
    assert best_peer(memory, "bfloat16", "1") == "torchrec_bf16"
    assert best_peer(memory, "float32", "2") is None
    assert best_peer(memory, "auto", "1") == "torchrec_bf16"


def test_ratios_are_of_the_same_repeat(memory: Memory) -> None:
    for repeat, (ours, theirs) in enumerate([(0.1, 0.2), (0.3, 0.3), (0.1, 0.4)]):
        _took(memory, "sangam", "1", ours, repeat=repeat)
        _took(memory, "torch", "1", theirs, repeat=repeat)
    (goal,) = goals(memory)
    assert (round(goal.measured, 6), goal.wanted, goal.is_met) == (2.0, 1.5, True)
    assert goal.spread == pytest.approx((1.0, 4.0))


def test_communication_is_judged_by_two_trainings_that_know_nothing_of_each_other(memory: Memory) -> None:
    _took(memory, "sangam", "apart", 0.1, 0.1)
    _took(memory, "sangam", "2", 0.125)
    (goal,) = goals(memory)
    assert (round(goal.measured, 6), goal.is_met) == (0.8, False)
    assert "| 81,920; 100.0 |" in speed_table(memory)

from pathlib import Path

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from bench.stages import BETWEEN, OTHER, WAITING, milliseconds_by_stage

pytestmark = pytest.mark.slow

_MS = 10**9


def _trace(directory: Path, *lines: list[tuple[str, int, int]]) -> Path:
    """Writes a profile: for each thread, events (name, first ms, last ms)."""
    space = xplane_pb2.XSpace()
    host = space.planes.add(name="/host:CPU")
    for number, events in enumerate(lines):
        line = host.lines.add(id=number)
        for name, start, end in events:
            known = len(host.event_metadata) + 1
            host.event_metadata[known].name = name
            line.events.add(metadata_id=known, offset_ps=start * _MS, duration_ps=(end - start) * _MS)
    folder = directory / "plugins" / "profile" / "now"
    folder.mkdir(parents=True)
    (folder / "host.xplane.pb").write_bytes(space.SerializeToString())
    return directory


def test_operations_count_for_the_innermost_scope_and_gaps_for_waiting(tmp_path: Path) -> None:
    step = [("KernelAndDeviceFunc::Run", 0, 20), ("KernelAndDeviceFunc::Run", 30, 40)]
    operations = [
        ("unique/UniqueWithCounts:UniqueWithCounts", 0, 2),
        ("gradient_tape/dense/MatMul/MatMul_1:_MklMatMul", 2, 12),
        # Waits from 12 to 15.
        ("cond/then/_16/cond/update_1/Gather:ResourceGather", 15, 19),
        ("add:AddV2", 19, 20),
        # Between the steps from 20 to 30.
        ("exchange/lookup/Find:TFRA>CuckooHashTableFind", 30, 40),
    ]
    found = milliseconds_by_stage(_trace(tmp_path, step, operations))
    expected = {"unique": 1, "dense": 5, "update": 2, "lookup": 5, OTHER: 0.5, WAITING: 1.5, BETWEEN: 5}
    assert {stage: time for stage, time in found.items() if time} == expected


def test_an_operation_inside_another_is_counted_once(tmp_path: Path) -> None:
    step = [("KernelAndDeviceFunc::Run", 0, 10)]
    operations = [("dense/cond:If", 0, 10), ("dense/cond/lookup/Find:Find", 3, 7), ("ExecutorState::Process", 3, 7)]
    found = milliseconds_by_stage(_trace(tmp_path, step, operations))
    assert {stage: time for stage, time in found.items() if time} == {"dense": 6, "lookup": 4}

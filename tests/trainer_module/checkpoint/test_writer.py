"""A server's rows are copied for a checkpoint when the last one no longer needs the memory of its copy."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sangam.trainer_module.checkpoint import writer
from sangam.trainer_module.snapshot import Copies, RowsSnapshot


def test_a_copy_waits_for_the_disk_that_still_writes_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, as_it_is, told = threading.Event(), writer.write_rows, []

    def slow(*of: object) -> object:
        assert disk.wait(30)
        return as_it_is(*of)  # type: ignore[arg-type]

    def copied_of(value: float) -> Callable[[Copies], dict[str, RowsSnapshot]]:
        def copied(copies: Copies) -> dict[str, RowsSnapshot]:
            told.append(value)
            rows = copies.take("g/rows", (5, 2), np.dtype(np.float32), room=8)
            rows[:] = value
            return {"g": RowsSnapshot(np.arange(5), rows)}

        return copied

    monkeypatch.setattr(writer, "write_rows", slow)
    of_server = writer.ServerWriter(0)
    of_server.start(tmp_path / "first", copied_of(1.0))
    second = threading.Thread(target=of_server.start, args=(tmp_path / "second", copied_of(2.0)))
    second.start()
    second.join(0.1)
    assert told == [1.0]
    disk.set()
    second.join()
    of_server.finish()
    for name, value in (("first", 1.0), ("second", 2.0)):
        [file] = (tmp_path / name).glob("*rows.npy")
        assert (np.load(file) == value).all()

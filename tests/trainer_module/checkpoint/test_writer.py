"""A server's rows are those of the moment of its checkpoint, of which there is one at a time."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sangam.trainer_module.checkpoint import writer
from sangam.trainer_module.snapshot import RowsSnapshot


def test_a_cut_waits_for_the_disk_that_still_writes_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, as_it_is, told, ended = threading.Event(), writer.write_rows, [], []

    class Told(RowsSnapshot):
        def end(self) -> None:
            ended.append(float(self.rows[0, 0]))

    def slow(*of: object) -> object:
        assert disk.wait(30)
        return as_it_is(*of)  # type: ignore[arg-type]

    def cut_of(value: float) -> Callable[[], dict[str, Told]]:
        def cut() -> dict[str, Told]:
            told.append(value)
            return {"g": Told(np.arange(5), np.full([5, 2], value, np.float32))}

        return cut

    monkeypatch.setattr(writer, "write_rows", slow)
    of_server = writer.ServerWriter(0)
    of_server.start(tmp_path / "first", cut_of(1.0))
    second = threading.Thread(target=of_server.start, args=(tmp_path / "second", cut_of(2.0)))
    second.start()
    second.join(0.1)
    assert (told, ended) == ([1.0], [])
    disk.set()
    second.join()
    of_server.finish()
    assert ended == [1.0, 2.0]
    for name, value in (("first", 1.0), ("second", 2.0)):
        [file] = (tmp_path / name).glob("*rows.npy")
        assert (np.load(file) == value).all()

"""Memory of a row of tables of rates and counts, where there is one: `python -m bench.history_memory [--ids 4000000]`.

Each place is a process of its own: Transform, which moves a week's window by a day; a rank, and the export, which load
the newest tables; a server. Resident bytes over those before, per row of the newest table: at the peak, and after.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import results
from sangam.schemas.contracts.history import FOLDER
from sangam.schemas.spec import Inputs

_BY = {"user": "string", "item": "string"}
_FEATURES = {
    "count": {"kind": "count", "by": _BY},
    "rate": {"kind": "rate", "task": "like", "by": _BY},
    "other_rate": {"kind": "rate", "task": "share", "by": _BY},
}
_SETS = ("count", "rate", "count,rate", "count,rate,other_rate")
_DAYS = 7
_MODEL = "model"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, default=4_000_000, help="rows of the newest table")
    parser.add_argument("--inside", nargs=3, metavar=("PLACE", "FEATURES", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        place, names, folder = arguments.inside
        print(json.dumps(_PLACES[place](_inputs(names), arguments.ids, Path(folder))))
        return
    rows = []
    for names in _SETS:
        with tempfile.TemporaryDirectory(prefix="history-memory-") as folder:
            found = [_measured(place, names, folder, arguments.ids) for place in _PLACES]
            size = sum(file.stat().st_size for file in Path(folder, _MODEL).rglob("*") if file.is_file())
        rows.append([names, *(f"{peak:.0f}, {after:.0f}" for peak, after in found), f"{size / arguments.ids:.0f}"])
    print(results.table(["features", *_PLACES, "files of the model"], rows))


def _measured(place: str, names: str, folder: str, ids: int) -> tuple[float, float]:
    command = [sys.executable, "-W", "ignore", "-m", "bench.history_memory", "--ids", str(ids), "--inside"]
    done = subprocess.run([*command, place, names, folder], check=True, stdout=subprocess.PIPE, text=True)
    before, peak, after = json.loads(done.stdout.splitlines()[-1])
    return (peak - before) / ids, (after - before) / ids


def _inputs(names: str) -> Inputs:
    features = {name: _FEATURES[name] for name in names.split(",")}
    tasks = {task: {"kind": "binary"} for task in ("like", "share")}
    return Inputs.model_validate_json(json.dumps({"features": features, "tasks": tasks}))


def _memory() -> tuple[int, int]:
    """Returns the process's resident bytes, and the most they were."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    resident, most = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return resident, most


def _transform(inputs: Inputs, ids: int, folder: Path, *, days_of_id: int) -> tuple[int, int, int]:
    from sangam.components.examples.listing import DayExamples
    from sangam.components.steps.transform.history.counts import Counts
    from sangam.components.steps.transform.history.tables import table_of, write_tables
    from sangam.components.steps.transform.history.window import Window
    from sangam.schemas.derived.days import parse_day
    from sangam.schemas.derived.history import counted, history_groups

    [(by, tasks)] = counted(inputs).items()
    [group] = history_groups(inputs)

    def counts_of(day: DayExamples) -> dict[object, Counts]:
        """Returns a day's counts: all ids, or others than other days, between theirs."""
        number, apart = int(str(day.day)[-2:]), _DAYS // days_of_id
        keys_n: NDArray[np.int64] = np.arange(number % apart, ids, apart, dtype=np.int64) * (2**62 // ids) + 1
        return {by: Counts(keys_n, np.ones((len(keys_n), 1 + 2 * len(tasks))))}

    before, _ = _memory()
    window = Window(group, len(tasks), parse_day("2024-03-01"), counts_of)  # type: ignore[arg-type]
    for number in range(_DAYS):
        day = DayExamples.model_construct(day=f"2024-03-{number + 1:02d}")
        window.add(day, counts_of(day))  # type: ignore[arg-type]
    write_tables(
        folder / (FOLDER if days_of_id == 1 else "unused"), "2024-03-08", [table_of(inputs, group, window.counts)]
    )
    after, peak = _memory()
    return before, peak, after


def _rank(inputs: Inputs, _ids: int, folder: Path) -> tuple[int, int, int]:
    from sangam.trainer_module.transforms.history import HistoryTables

    HistoryTables(str(folder / "none"))
    before, _ = _memory()
    tables = HistoryTables(str(folder))
    after, peak = _memory()
    assert len(tables.columns) == len(inputs.features)
    return before, peak, after


def _export(inputs: Inputs, _ids: int, folder: Path) -> tuple[int, int, int]:
    import tensorflow as tf

    from sangam.schemas.derived.columns import history_of
    from sangam.trainer_module.transforms.history import HistoryTables

    class Served(tf.Module):
        def __init__(self, tables: HistoryTables):
            super().__init__()
            self.tables = tables

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string)])
        def rank(self, user: tf.Tensor, item: tf.Tensor) -> dict[str, tf.Tensor]:
            columns = {"user": user, "item": item}
            found = self.tables({name: tf.sparse.from_dense(value[:, None]) for name, value in columns.items()})
            return {name: found[history_of(name)].values for name in inputs.features}

    HistoryTables(str(folder / "none"))
    before, _ = _memory()
    served = Served(HistoryTables(str(folder)))
    tf.saved_model.save(served, str(folder / _MODEL), signatures={"rank": served.rank})
    after, peak = _memory()
    return before, peak, after


def _server(_inputs: Inputs, _ids: int, folder: Path) -> tuple[int, int, int]:
    from sangam.components.server.session import ModelSession

    before, _ = _memory()
    session = ModelSession(folder / _MODEL, {})
    users = np.array([b"u"] * 200)
    session.call("rank")({"user": users, "item": users})
    after, peak = _memory()
    return before, peak, after


_PLACES: dict[str, Callable[[Inputs, int, Path], tuple[int, int, int]]] = {
    "transform, ids of all days": partial(_transform, days_of_id=_DAYS),
    "transform, of one day": partial(_transform, days_of_id=1),
    "rank": _rank,
    "export": _export,
    "server": _server,
}


if __name__ == "__main__":
    main()

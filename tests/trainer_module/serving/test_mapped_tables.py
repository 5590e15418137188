"""Large tables whose files a server maps into memory."""

import gc
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sangam.components.server.model import LoadedModel, NotServable
from sangam.schemas.contracts.export import DESCRIPTION_FILE
from sangam.schemas.derived.groups import Group
from sangam.schemas.spec.optimizers import Sgd
from sangam.schemas.spec.tables import Table
from sangam.trainer_module.serving.shards import OwnFiles
from sangam.trainer_module.serving.stock_table import StockTable
from sangam.trainer_module.serving.trained_rows import TrainedRows
from tests.schemas.sample_exports import sample_description

pytestmark = pytest.mark.slow
_TAG, _DIM, _NUM_ROWS = 1 << 52, 16, 1_000_000
_KEYS, _ROWS = "tables/g/_keys/.ATTRIBUTES/VARIABLE_VALUE", "tables/g/_rows/.ATTRIBUTES/VARIABLE_VALUE"


class _Served(tf.Module):
    """A table whose rows take more than 16 MiB, and a small variable."""

    def __init__(self) -> None:
        super().__init__()
        group = Group(
            name="g",
            dim=_DIM,
            tags={"posts": 1},
            tables={"posts": Table(dim=_DIM)},
            optimizers={"posts": Sgd(kind="sgd", learning_rate=0.1)},
            num_slot_floats=0,
        )
        keys = np.random.default_rng(0).permutation(_NUM_ROWS) | _TAG
        rows = np.repeat((keys - _TAG)[:, None], _DIM, axis=1).astype(np.float32)
        self.tables = {"g": StockTable(group, "float32", TrainedRows(keys, lambda: iter([rows])))}
        self._offset = tf.Variable(0.5, name="offset")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="keys")])
    def read(self, keys: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"rows": self.tables["g"](keys) + self._offset}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.int64, name="keys"),
            tf.TensorSpec([None, _DIM], tf.float32, name="rows"),
        ]
    )
    def upsert(self, keys: tf.Tensor, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"upserted": self.tables["g"].upsert(keys, rows)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder, served = tmp_path_factory.mktemp("mapped") / "1", _Served()
    own = OwnFiles({f"tables/g/{name}": each for name, each in served.tables["g"].variables_by_attribute().items()})
    options = tf.saved_model.SaveOptions(experimental_sharding_callback=own)
    signatures = {"serving_default": served.read, "upsert": served.upsert}
    tf.saved_model.save(served, str(folder), signatures=signatures, options=options)
    (folder / DESCRIPTION_FILE).parent.mkdir()
    (folder / DESCRIPTION_FILE).write_text(sample_description(own_files=own.files).text())
    return folder, own.files


def _read(model: LoadedModel, *keys: int) -> Any:
    found = model.run(model.signature(""), {"keys": np.array([_TAG | key for key in keys])})["rows"]
    assert (found == found[:, :1]).all()
    return found[:, 0].tolist()


def _maps() -> str:
    return Path("/proc/self/maps").read_text()


def test_a_large_table_has_its_own_file(exported: tuple[Path, dict[str, str]]) -> None:
    folder, files = exported
    assert files == {_ROWS: "variables/variables.data-00001-of-00002"}
    rows = np.fromfile(folder / files[_ROWS], np.float32).reshape(_NUM_ROWS + 1, _DIM)
    np.testing.assert_array_equal(rows[:-1], np.repeat(np.arange(_NUM_ROWS)[:, None], _DIM, axis=1))
    assert not rows[-1].any()  # What unknown ids read.


def test_mapped_rows_are_those_of_the_file_and_can_be_changed(exported: tuple[Path, dict[str, str]]) -> None:
    folder, files = exported
    for map_tables in (True, False):
        model = LoadedModel(folder, 1, map_tables=map_tables)
        assert _read(model, 0, 7, _NUM_ROWS - 1, _NUM_ROWS) == [0.5, 7.5, _NUM_ROWS - 0.5, 0.5]
        change = {"keys": np.array([_TAG | 7, _TAG | _NUM_ROWS]), "rows": np.full([2, _DIM], -1.0, np.float32)}
        assert model.run(model.signature("upsert"), change) == {"upserted": 2}
        assert _read(model, 6, 7, _NUM_ROWS) == [6.5, -0.5, -0.5]
        # Neither reading nor changing has made a copy of the mapped rows.
        with _rows_written(folder / files[_ROWS], 0, 7, _NUM_ROWS - 1, value=99.0):
            found = _read(model, 0, 7, _NUM_ROWS - 1)
        assert found == ([99.5, -0.5, 99.5] if map_tables else [0.5, -0.5, _NUM_ROWS - 0.5])
        # The second model's calls have freed the first one's map.
        assert (str(folder / files[_ROWS]) in _maps()) == map_tables
        del model
        gc.collect()


@contextmanager
def _rows_written(file: Path, *numbers: int, value: float) -> Iterator[None]:
    rows = np.memmap(file, np.float32, "r+", shape=(_NUM_ROWS, _DIM))
    rows[list(numbers)] = value
    del rows  # Its map, too.
    yield
    np.memmap(file, np.float32, "r+", shape=(_NUM_ROWS, _DIM))[list(numbers)] = np.array(numbers)[:, None]


def test_versions_that_share_a_file_map_the_same_pages(exported: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    folder, files = exported
    shutil.copytree(folder, tmp_path / "2")
    (tmp_path / "2" / files[_ROWS]).unlink()
    (tmp_path / "2" / files[_ROWS]).hardlink_to(folder / files[_ROWS])
    models = [LoadedModel(folder, 1, map_tables=True), LoadedModel(tmp_path / "2", 2, map_tables=True)]
    assert [_read(model, 7) for model in models] == [[7.5], [7.5]]
    mapped = [line.split() for line in _maps().splitlines() if line.endswith(files[_ROWS])]
    assert len(mapped) == 2
    assert {inode for _, _, _, _, inode, _ in mapped} == {str((folder / files[_ROWS]).stat().st_ino)}


def test_a_file_of_another_length_is_refused(exported: tuple[Path, dict[str, str]]) -> None:
    folder, files = exported
    (folder / DESCRIPTION_FILE).write_text(sample_description(own_files={_KEYS: files[_ROWS]}).text())
    try:
        with pytest.raises(NotServable, match="not one variable"):
            LoadedModel(folder, 1, map_tables=True)
    finally:
        (folder / DESCRIPTION_FILE).write_text(sample_description(own_files=files).text())

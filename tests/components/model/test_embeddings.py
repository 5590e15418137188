"""The vectors of a model's ids, and their files."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.model.embeddings import Embeddings
from sangam.components.model.model import Model, load
from sangam.schemas.contracts.export import IDS_REPORT_FILE
from sangam.schemas.errors import UserError
from tests.components.model.committed import EXPECTED, FOLDER
from tests.errors import place_and_value
from tests.pipelines.command_line import sangam

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("table", ["users", "tags"])
def test_each_id_has_its_trained_row(model: Model, table: str) -> None:
    found, rows = model.embeddings(table), EXPECTED["vectors"][table]
    assert sorted(found.ids) == sorted(rows)
    assert found.num_rows == len(found) == len(rows)
    np.testing.assert_array_equal(found.vectors, np.array([rows[each] for each in found.ids], np.float32))


def test_unknown_tables_are_refused(model: Model) -> None:
    with pytest.raises(UserError, match=place_and_value("table", "(got 'posts') ... tags, users")):
        model.embeddings("posts")


def test_a_model_without_ids_tells_the_line_to_add(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "model")
    described = tmp_path / "model" / "assets.extra" / "ranker.json"
    described.write_text(described.read_text().replace('"ids": true', '"ids": false'))
    with pytest.raises(UserError, match=r"export: \{ids: true\}"):
        load(tmp_path / "model").embeddings("users")
    described.write_text(described.read_text().replace('"ids": false', '"ids": true'))
    (tmp_path / "model" / IDS_REPORT_FILE).write_text("{}")
    with pytest.raises(UserError, match=place_and_value(str(tmp_path / "model" / IDS_REPORT_FILE), "(got ")):
        load(tmp_path / "model").embeddings("users")


SQUARE = Embeddings(np.array([7, 8, 9]), np.array([[1, 0], [1, 1], [0, 0]], np.float32), 4)


def test_the_nearest_have_the_largest_cosine() -> None:
    found = SQUARE.nearest([7], k=5)
    assert found["nearest"].tolist() == [8, 9]
    np.testing.assert_allclose(found["cosine"], [np.sqrt(0.5), 0.0], atol=1e-6)
    with pytest.raises(UserError, match=place_and_value("ids", "(got 10) ... 7, 8, 9")):
        SQUARE.nearest([10])


def test_files_have_ids_and_lists_of_fixed_size(tmp_path: Path) -> None:
    SQUARE.write(tmp_path / "vectors.parquet")
    SQUARE.write(tmp_path / "vectors.arrow")
    with pa.memory_map(str(tmp_path / "vectors.arrow")) as file:
        arrow = pa.ipc.open_file(file).read_all()
    assert arrow.schema.field("vector").type == pa.list_(pa.float32(), 2)
    assert arrow.equals(pq.read_table(tmp_path / "vectors.parquet"))
    assert arrow.to_pylist()[1] == {"id": 8, "vector": [1.0, 1.0]}
    with pytest.raises(UserError, match=place_and_value(str(tmp_path / "vectors.csv"), ".parquet")):
        SQUARE.write(tmp_path / "vectors.csv")


def test_the_command_writes_and_prints(tmp_path: Path) -> None:
    file = tmp_path / "users.parquet"
    done = sangam("embeddings", str(FOLDER), "users", "--output", str(file), "--nearest", "ann", "--k", "1")
    assert done.returncode == 0, done.stderr
    assert set(pq.read_table(file)["id"].to_pylist()) == {"ann", "bob", "cid"}
    vectors = {name: np.array(vector) for name, vector in EXPECTED["vectors"]["users"].items()}
    cosines = {
        name: vector @ vectors["ann"] / np.linalg.norm(vector) / np.linalg.norm(vectors["ann"])
        for name, vector in vectors.items()
        if name != "ann"
    }
    nearest = max(cosines, key=lambda name: cosines[name])
    assert f"{nearest}" in done.stdout
    assert f"{cosines[nearest]:.4f}" in done.stdout
    refused = sangam("embeddings", str(FOLDER), "users")
    assert refused.returncode == 2
    assert refused.stderr.startswith("--output: ")

"""Semantic ids against a residual quantization in NumPy, and the fit of codebooks against scikit-learn's k-means."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sangam_example_parts import SemanticIds
from sangam_example_parts.codebooks import fit, nearest
from sklearn.cluster import KMeans

from sangam.parts import PinnedFile, tf
from sangam.schemas.errors import UserError
from sangam.testing import check_part

pytestmark = pytest.mark.slow
VECTORS = (np.random.default_rng(0).normal(size=(60, 3)) * [3, 1, 0.3]).astype(np.float32)


def sample_part(folder: Path, books: np.ndarray, ids: str = "prefix") -> SemanticIds:
    file = folder / "codebooks.npy"
    np.save(file, books)
    pinned = PinnedFile(path=str(file), sha256=hashlib.sha256(file.read_bytes()).hexdigest())
    return SemanticIds(kind="semantic_ids", column="content", dim=3, codebooks=pinned, table="codes", ids=ids)


@pytest.mark.parametrize("ids", ["prefix", "level"])
def test_the_codes_are_those_of_the_residuals(tmp_path: Path, ids: str) -> None:
    books = fit(VECTORS, levels=3, codes=4)
    expected = []
    for vector in VECTORS:
        residual, codes = vector, []
        for book in books:
            codes.append(int(np.argmin(((residual - book) ** 2).sum(1))))
            residual = residual - book[codes[-1]]
        shown = [f"{level}:{code}" for level, code in enumerate(codes)]
        if ids == "prefix":
            shown = [f"{level}:{'-'.join(map(str, codes[: level + 1]))}" for level in range(3)]
        expected.append([text.encode() for text in shown])
    rows = tf.ragged.constant([[], *VECTORS.tolist()], ragged_rank=1, dtype=tf.float32)
    assert sample_part(tmp_path, books, ids).transform([rows]).to_list() == [[], *expected]


def test_a_level_is_about_as_good_as_the_k_means_of_scikit_learn() -> None:
    [book] = fit(VECTORS, levels=1, codes=6)
    ours = float(((VECTORS - book[nearest(VECTORS, book)]) ** 2).sum())
    theirs = KMeans(6, n_init=10, random_state=0).fit(VECTORS).inertia_
    assert theirs * 0.999 <= ours <= theirs * 1.3


def test_each_level_leaves_less() -> None:
    left, errors = VECTORS, []
    for book in fit(VECTORS, levels=4, codes=4):
        left = left - book[nearest(left, book)]
        errors.append(float((left**2).mean()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 4


def test_equal_vectors_give_fewer_distinct_codes_and_no_error() -> None:
    assert fit(np.ones((5, 3), np.float32), levels=2, codes=4).shape == (2, 4, 3)


def test_the_command_prints_the_lines_of_the_spec(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", VECTORS)
    words = ["vectors.npy", "--levels", "2", "--codes", "4", "--output", "codebooks.npy"]
    command = [sys.executable, "-m", "sangam_example_parts.codebooks", *words]
    place = str(Path(__file__).parents[1])
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": f"{place}:{':'.join(sys.path)}"}, capture_output=True, check=True
    )
    digest = hashlib.sha256((tmp_path / "codebooks.npy").read_bytes()).hexdigest()
    assert done.stdout.decode() == f"dim: 3\ncodebooks: {{path: codebooks.npy, sha256: {digest}}}\n"
    assert np.load(tmp_path / "codebooks.npy").shape == (2, 4, 3)


def test_another_content_of_the_file_is_refused_until_the_spec_says_so(tmp_path: Path) -> None:
    part = sample_part(tmp_path, fit(VECTORS, levels=1, codes=4))
    assert list(part.problems()) == []
    np.save(tmp_path / "codebooks.npy", fit(VECTORS, levels=1, codes=4, seed=1))
    digest = hashlib.sha256((tmp_path / "codebooks.npy").read_bytes()).hexdigest()
    with pytest.raises(UserError, match=f"sha256: .*got {part.codebooks.sha256}.*{digest}"):
        list(part.problems())


def test_codebooks_of_another_length_are_a_mistake(tmp_path: Path) -> None:
    [problem] = sample_part(tmp_path, np.zeros((2, 4, 5), np.float32)).problems()
    assert problem.loc == ("codebooks",)
    assert "[2, 4, 5]" in problem.what


@pytest.mark.long
def test_they_hold_what_every_part_promises(tmp_path: Path) -> None:
    rows = [{"content": vector} for vector in [[], *VECTORS[:40].tolist()]]
    check_part(sample_part(tmp_path, fit(VECTORS, levels=2, codes=4)), rows)

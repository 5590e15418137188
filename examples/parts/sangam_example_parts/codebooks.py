"""Fits the codebooks of `semantic_ids` to vectors: k-means of what the levels before leave, level by level."""

import argparse
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def fit(vectors_ND: Floats, levels: int, codes: int, *, seed: int = 0, rounds: int = 25) -> Floats:
    """Returns codebooks [levels, codes, dim]."""
    generator, residual_ND, books = np.random.default_rng(seed), vectors_ND.astype(np.float32), []
    for _ in range(levels):
        centers_CD = _k_means(residual_ND, codes, generator, rounds)
        books.append(centers_CD)
        residual_ND = residual_ND - centers_CD[nearest(residual_ND, centers_CD)]
    return np.stack(books)


def nearest(vectors_ND: Floats, centers_CD: Floats) -> NDArray[np.int64]:
    """Returns the index of the nearest center of each vector."""
    distances_NC = (centers_CD**2).sum(1) - 2 * vectors_ND @ centers_CD.T
    return np.asarray(distances_NC.argmin(1))


def _k_means(vectors_ND: Floats, codes: int, generator: np.random.Generator, rounds: int) -> Floats:
    """Lloyd's algorithm from k-means++ seeds (Arthur, Vassilvitskii, SODA 2007)."""
    centers_CD = vectors_ND[[generator.integers(len(vectors_ND))]]
    while len(centers_CD) < codes:
        squared_N = ((vectors_ND[:, None] - centers_CD) ** 2).sum(2).min(1)
        total = squared_N.sum()
        chances_N = squared_N / total if total > 0 else None
        centers_CD = np.concatenate([centers_CD, vectors_ND[[generator.choice(len(vectors_ND), p=chances_N)]]])
    for _ in range(rounds):
        code_N = nearest(vectors_ND, centers_CD)
        # A code without vectors stays where it is.
        for code in np.unique(code_N):
            centers_CD[code] = vectors_ND[code_N == code].mean(0)
    return centers_CD


def main() -> None:
    """Reads vectors [N, dim] of an .npy file, writes codebooks, and prints the lines for the spec."""
    parser = argparse.ArgumentParser(prog="python -m sangam_example_parts.codebooks", description=__doc__)
    parser.add_argument("vectors", type=Path, help="an .npy file, float32 [vectors, dim]: one row per item")
    parser.add_argument("--levels", type=int, default=3)
    parser.add_argument("--codes", type=int, default=256, help="codes of each level")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True, help="an .npy file beside the spec")
    options = parser.parse_args()
    vectors_ND = np.load(options.vectors, allow_pickle=False)
    books = fit(vectors_ND, options.levels, options.codes, seed=options.seed)
    np.save(options.output, books)
    digest = hashlib.sha256(options.output.read_bytes()).hexdigest()
    print(f"dim: {books.shape[2]}\ncodebooks: {{path: {options.output.name}, sha256: {digest}}}")


if __name__ == "__main__":
    main()

"""Adds a column of vectors to the logs of `sangam generate`, in place, and writes the vectors of all posts.

python add_content.py logs vectors.npy
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DIM = 4


def content(posts: np.ndarray) -> np.ndarray:
    """Returns a vector for each post, which stands in for one of a text or an image: [posts, DIM] float32."""
    return np.sin(np.outer(posts % 997, np.arange(1, DIM + 1) ** 2) / 100).astype(np.float32)


def main(logs: Path, vectors: Path) -> None:
    """Rewrites every Parquet file."""
    seen = set()
    for file in sorted(logs.glob("*/*.parquet")):
        table = pq.read_table(file)
        posts = table["post_id"].to_numpy()
        seen |= set(posts.tolist())
        column = pa.array(content(posts).tolist(), pa.list_(pa.float32()))
        pq.write_table(table.append_column("post_content", column), file)
    np.save(vectors, content(np.array(sorted(seen))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

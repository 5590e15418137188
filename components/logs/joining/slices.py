"""Record batches as bytes, cut into buckets, and put together again."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.arrow_files import open_stream


def cut(batch: pa.RecordBatch, numbers: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """Yields the rows of each number, in their order, as bytes."""
    order = np.argsort(numbers, kind="stable")
    found, first = np.unique(numbers[order], return_index=True)
    ends = np.append(first[1:], len(numbers))
    in_order = batch.take(pa.array(order))
    for number, begin, end in zip(found, first, ends, strict=True):
        yield int(number), to_bytes(in_order.slice(begin, end - begin))


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """Returns a batch in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def together(parts: Iterable[bytes], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Returns the rows of all parts in one batch.

    Args:
        parts: parts of `to_bytes`, with the same columns.
        schema: schema where there are no parts.
    """
    batches = [batch for part in parts for batch in open_stream(part)]
    if not batches:
        assert schema is not None
        return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema.names)
    return single(batches)


def single(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns the rows of batches in one."""
    table = pa.Table.from_batches(batches).combine_chunks()
    found = table.to_batches()
    return found[0] if found else batches[0]

"""Small batches of rows as fewer larger ones: what is done for each batch then costs little beside its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

#: The least rows, or bytes, of a batch that is yielded before the last one.
GATHERED_ROWS, GATHERED_BYTES = 32768, 8 << 20


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in larger batches."""
    pieces: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        pieces.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GATHERED_ROWS or size >= GATHERED_BYTES:
            yield from _together(pieces)
            pieces, rows, size = [], 0, 0
    if pieces:
        yield from _together(pieces)


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return batches if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()

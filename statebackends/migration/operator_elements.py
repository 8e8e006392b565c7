"""Elements of operator state as bytes, some contiguous ones at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader
from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource

WINDOW = 16 << 20


def elements_in(source: OperatorSource, header: OperatorBackendHeader, name: str) -> Iterator[tuple[bytes, int]]:
    """Yield the elements of a state in one stream: bytes, and number of elements."""
    offsets = np.sort(source.offsets(name))
    if not len(offsets):
        return
    try:
        with source.location.open() as opened:
            stream = source.stream(opened, header)
            for buffer, pieces, _ in stream.windows(offsets, WINDOW):
                columns = (pieces.start.tolist(), pieces.end.tolist(), pieces.count.tolist())
                for start, end, count in zip(*columns, strict=True):
                    yield buffer[start:end].tobytes(), count
    except SavepointError as error:
        raise error.with_facts(operator=source.operator, state=name) from None

"""What functions of batches have in common: they leave empty ones out, and name the operator in their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from pyspark_savepoint.formats.errors import SavepointError


def of_each(
    function: Callable[[pa.RecordBatch], pa.RecordBatch], batches: Iterable[pa.RecordBatch], label: str
) -> Iterator[pa.RecordBatch]:
    """Yield what a function makes of each batch that has rows; errors get the operator's label."""
    for batch in batches:
        if len(batch):
            try:
                yield function(batch)
            except SavepointError as error:
                raise error.with_facts(operator=label) from None

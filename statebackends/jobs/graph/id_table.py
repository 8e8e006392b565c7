"""Operator ids of a job's graph as a table."""

from __future__ import annotations

import pyarrow as pa

from pyspark_savepoint.statebackends.jobs.graph.hashers import operator_id_pairs
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, hasher_of

SCHEMA = pa.schema(
    [
        ("node", pa.int32()),
        ("name", pa.string()),
        ("uid", pa.string()),
        ("operator_id", pa.string()),
        ("by", pa.string()),
        ("alternatives", pa.map_(pa.string(), pa.string())),
    ]
)


def operator_ids(graph: StreamGraph, hasher: str | None = None) -> pa.Table:
    """Return the ids that Flink gives to the operators of a job, one row per operator, in order of generation.

    Args:
        graph: The graph of the job.
        hasher: How operators without uid get their ids: ``v2``, or the proposed ``v3``; by default that of the graph.

    Returns:
        Number, name, uid and id of each operator, ``by`` what the id is made (``uid``, ``v2`` or ``v3``), and the
        alternatives that a restore tries before it, by what they are made.

    Raises:
        OptionError: If two operators have one uid, or an operator is not reached from a source.

    Example::

        pyspark_savepoint.operator_ids(graph).to_pandas()

    """
    rows = []
    for number, pair in operator_id_pairs(graph, None if hasher is None else hasher_of(hasher)).items():
        node = graph.nodes[number]
        alternatives = [(how, other.hex) for how, other in pair.alternatives]
        rows.append((number, node.name, node.uid, pair.generated.hex, pair.generated_by, alternatives))
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)

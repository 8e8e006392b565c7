"""What an operator keeps beside what is written: its entries, as bytes, in the order of key groups.

They come from whatever format they are in, and go to the canonical one; nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint
from pyspark_savepoint.statebackends.model.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.model.sort import RowSorter
from pyspark_savepoint.statebackends.model.sort_runs import SortedBatch
from pyspark_savepoint.statebackends.tables.entries_table import EntriesPartition, EntriesTable
from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan
from pyspark_savepoint.statebackends.writing.rows.keyed_sink import EntrySink
from pyspark_savepoint.statebackends.writing.rows.row_forms import EntryForm


@contextmanager
def kept_entries(
    plan: WritePlan, writer: CanonicalKeyedStreamWriter, key_groups: KeyGroupRange
) -> Iterator[tuple[EntrySink, Iterator[SortedBatch]]]:
    """A sink for the states that stay, whose numbers follow those that are written, and their entries, sorted."""
    base = Savepoint.open(plan.request.path)
    wanted = EntriesRequest(plan.kept)
    operator = next(operator for operator in base.operators if operator.operator_id == plan.operator_id)
    table = EntriesTable(base, operator, TableRequest(plan.request.path, entries=wanted))
    split = table.headers.split(tuple(key_groups))
    partition = EntriesPartition(split, (), wanted, table.schema, table.request)
    written = len(plan.header().states) - len(plan.kept)
    form = EntryForm(plan, written)
    with RowSorter(form.schema, plan.request.sort_memory // 2) as sorter:
        for batch in partition.batches():
            sorter.add(*form.rows(batch))
        yield form.sink(writer), sorter.sorted()

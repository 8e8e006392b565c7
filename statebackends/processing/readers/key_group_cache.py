"""Cache of data of keys outside their row: timers, and states of other tables, for some key groups at a time.

Data is loaded when a function first requests it, and only for some key groups around that of the current key, so memory
stays bounded. Keys are compared by their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import StateNotFoundError
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.processing.runtime.values import to_python
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedPartition, KeyedTable
from pyspark_savepoint.statebackends.tables.timers_table import TimerPartition, TimersTable

#: Event time timers and processing time timers of a key (and namespace).
KeyTimers = tuple[list[int], list[int]]
NO_TIMERS: KeyTimers = ([], [])
BATCH_ROWS = 8192


class RegisteredTimers:
    """Base class of contexts that give a reader function the registered timers."""

    def _key_timers(self) -> KeyTimers:
        """Return the timers of the current key (and window)."""
        raise NotImplementedError

    def event_time_timers(self) -> list[int]:
        """Return the event time timers, ascending."""
        return list(self._key_timers()[0])

    def processing_time_timers(self) -> list[int]:
        """Return the processing time timers, ascending."""
        return list(self._key_timers()[1])


class KeyGroupCache:
    """Dict by key of the data of some key groups; others are loaded when needed."""

    def __init__(
        self, key_groups: Sequence[int], count: int, load: Callable[[tuple[int, ...]], dict[Any, Any]]
    ) -> None:
        self._groups = tuple(key_groups)
        self._size = max(1, -(-len(self._groups) // max(1, count)))
        self._load = load
        self._loaded: frozenset[int] = frozenset()
        self._found: dict[Any, Any] = {}

    def get(self, key_group: int, key: Any) -> Any:
        """Return the data of a key, or None."""
        if key_group not in self._loaded:
            place = self._groups.index(key_group) // self._size * self._size
            around = self._groups[place : place + self._size]
            self._found = {}
            self._found = self._load(around)
            self._loaded = frozenset(around)
        return self._found.get(key)


@dataclass(frozen=True)
class TimerLoader:
    """Loader of timers by key, or by key and namespace."""

    partition: TimerPartition
    namespaced: bool

    def __call__(self, key_groups: tuple[int, ...]) -> dict[Any, KeyTimers]:
        """Return the timers of some key groups."""
        split = replace(self.partition.split, key_groups=key_groups)
        found: dict[Any, KeyTimers] = {}
        for batch in replace(self.partition, split=split).batches():
            columns = [to_python(batch.column(name)) for name in ("domain", "timestamp", "key")]
            spaces = to_python(batch.column("namespace")) if self.namespaced else [None] * batch.num_rows
            for domain, timestamp, key, namespace in zip(*columns, spaces, strict=True):
                place = (key, namespace) if self.namespaced else key
                of_key = found.get(place)
                if of_key is None:
                    of_key = found[place] = ([], [])
                of_key[domain == "processing"].append(timestamp)
        for event, processing in found.values():
            event.sort()
            processing.sort()
        return found


def timers_of(opened: OpenOperator, request: TableRequest, service: str, namespaced: bool) -> TimersTable | None:
    """Return the timers of a service; None if the operator has none."""
    wanted = replace(
        request,
        table="timers",
        state=service,
        raw=("key", "namespace"),
        batch_rows=BATCH_ROWS,
        keys=None,
        key_groups=None,
    )
    try:
        table = TimersTable(opened, wanted)
    except StateNotFoundError:
        return None
    columns = ["key", "timestamp", "domain"]
    if namespaced:
        if "namespace" not in table.schema.names:
            return None
        columns.append("namespace")
    return table.select(columns)


@dataclass(frozen=True)
class RowLoader:
    """Loader of rows of a keyed table by the bytes of their keys: batch and row number."""

    partition: KeyedPartition

    def __call__(self, key_groups: tuple[int, ...]) -> dict[Any, tuple[pa.RecordBatch, int]]:
        """Return the rows of some key groups."""
        split = replace(self.partition.split, key_groups=key_groups)
        found: dict[Any, tuple[pa.RecordBatch, int]] = {}
        for batch in replace(self.partition, split=split).batches():
            for row, key in enumerate(to_python(batch.column("key"))):
                found[key] = (batch, row)
        return found


def partitions_by_group(table: KeyedTable | TimersTable | None, parallelism: int) -> dict[int, Any]:
    """Return the partitions of a table by key group."""
    partitions: list[Any] = table.partitions(parallelism) if table is not None else []
    return {group: partition for partition in partitions for group in partition.split.key_groups}

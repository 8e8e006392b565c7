"""Process function over the records of one key at a time, with timers that fire at the end of every key (FLIP-140).

Flink: ``KeyedProcessOperator`` in BATCH mode, ``BatchExecutionInternalTimeServiceManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.model.key_codec import KeyCodec
from pyspark_savepoint.statebackends.processing.api.functions import KeyedProcessFunction
from pyspark_savepoint.statebackends.processing.api.timers import FiringTimers
from pyspark_savepoint.statebackends.processing.backends.single_key import SingleKeyStateBackend
from pyspark_savepoint.statebackends.processing.operators.contexts import KeyedElementContext
from pyspark_savepoint.statebackends.processing.operators.records import Chunk, RecordOrder, Records
from pyspark_savepoint.statebackends.processing.operators.state_registry import ObjectReuse, StateRegistry
from pyspark_savepoint.statebackends.processing.runtime.collector import Collector
from pyspark_savepoint.statebackends.processing.runtime.garbage_collection import relaxed_gc
from pyspark_savepoint.statebackends.processing.runtime.user_code import Closing, UserCode, open_function


@dataclass(frozen=True)
class ProcessPlan:
    """Plan of the tasks; records are always sorted, because timers fire key by key."""

    function: KeyedProcessFunction
    key: KeyedDescriptor
    columns: tuple[str, ...]
    schema: pa.Schema
    max_parallelism: int
    order: RecordOrder = field(default_factory=RecordOrder)
    reuse: ObjectReuse = ObjectReuse.DEFAULT
    flink_version: tuple[int, int] = DEFAULT_VERSION
    parallelism: int = 1


class ProcessTask:
    """One task of a plan."""

    def __init__(self, plan: ProcessPlan, index: int) -> None:
        self.plan = plan
        self.backend = SingleKeyStateBackend()
        self.timers = FiringTimers()
        self.context = KeyedElementContext(self.backend, self.timers)
        self.collector = Collector(plan.schema)
        self.registry = StateRegistry(
            self.backend, plan.key.key_serializer, plan.flink_version, plan.reuse,
            index_of_this_subtask=index, number_of_parallel_subtasks=plan.parallelism,
        )  # fmt: skip
        self.records = Records(KeyCodec(plan.key, plan.max_parallelism), plan.order, plan.columns)
        self.firing = UserCode(plan.function, "on_timer", self.backend)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the function yields."""
        function = self.plan.function
        with Closing(function), relaxed_gc():
            with UserCode(function, "open"):
                open_function(function, self.registry)
            self.registry.discard()
            for batch in self.records.sorted(batches):
                for chunk in self.records.chunks(batch, self.plan.reuse, self.registry.unshared):
                    for _ in self._process(chunk):
                        with UserCode(function, "its rows"):
                            yield from self.collector.rest()
            self._end_of_key()
            with UserCode(function, "its rows"):
                yield from self.collector.rest()

    def _process(self, chunk: Chunk) -> Iterator[None]:
        """Process a chunk, and yield after a key whenever there are enough rows for a batch."""
        process, ctx, collector = self.plan.function.process_element, self.context, self.collector
        values, times = iter(chunk.values), iter(chunk.timestamps or ())
        with UserCode(self.plan.function, "process_element", self.backend):
            for key, place, count in zip(chunk.keys, chunk.places, chunk.counts, strict=True):
                if place != self.backend.place:
                    self._end_of_key()
                self.backend.set_current_key(key, place)
                collector.of(key)
                for value in islice(values, count):
                    ctx.time = next(times, None)
                    collector.add(process(value, ctx))
                if collector.is_full():
                    yield

    def _end_of_key(self) -> None:
        """Fire the timers of the previous key, while its state still exists."""
        with self.firing:
            self.timers.fire(
                lambda time, _: self._on_timer(time, "event"), lambda time, _: self._on_timer(time, "processing")
            )

    def _on_timer(self, timestamp: int, domain: str) -> None:
        self.context.firing(timestamp, domain)
        self.collector.add(self.plan.function.on_timer(timestamp, self.context))

"""Output of state to a savepoint: several thousand Python objects at a time become entries of a state file.

The contents that one output has collected become columns of the state's types, which ``state_entries`` encodes as it
does any column. Batches have the schema of the internal table ``entries``.
"""

from __future__ import annotations

import struct
from collections import deque
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Ints, fixed_array, map_type, spans_of
from pyspark_savepoint.formats.errors import DuplicateKeyError, OptionError, SavepointError
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.statebackends.processing.backends.adapters import TimeToLive
from pyspark_savepoint.statebackends.processing.runtime.collector import MOST, AdaptiveBatches
from pyspark_savepoint.statebackends.processing.runtime.values import for_functions, from_python, to_python
from pyspark_savepoint.statebackends.rows.descriptors import StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES
from pyspark_savepoint.statebackends.rows.state_entries import (
    KeySpans,
    RepeatedUserKey,
    StateEntries,
    state_entries,
)

_VOID = b"\0"
#: The grouped key of calls without a key, compared by identity.
OUTSIDE = bytes([0xFF]) * 3
_PREFIX = 2
_TIME = struct.Struct(">Q")
PLAIN = for_functions(DecodeOptions())


def unit_types(state: StateDescriptor, options: DecodeOptions = PLAIN) -> tuple[pa.DataType, ...]:
    """Return the types of one unit of a state; values with a time to live are structs with their last access."""
    return tuple(_unit(serializer, options) for serializer in state.units)


def content_type(state: StateDescriptor, options: DecodeOptions = PLAIN) -> pa.DataType:
    """Return the type of a column of a state's contents."""
    units = unit_types(state, options)
    if state.kind is StateKind.LIST:
        return pa.list_(pa.field("element", units[0]))
    return map_type(*units) if state.kind is StateKind.MAP else units[0]


def _unit(serializer: TypeSerializer, options: DecodeOptions) -> pa.DataType:
    if isinstance(serializer, TtlSerializer):
        return TimeToLive.stored_type(serializer.value.arrow_type(options))
    return serializer.arrow_type(options)


class EntryOutput:
    """Output of one state; batches go to ``done``. ``number`` is the state's number in the file header."""

    def __init__(
        self,
        number: int,
        state: StateDescriptor,
        done: deque[pa.RecordBatch],
        options: DecodeOptions = PLAIN,
        key: TypeSerializer | None = None,
    ) -> None:
        self.number = number
        self.state = state
        self.kind = content_type(state, options)
        self._key = key
        self._done = done
        self.discards = False
        self._many = state.kind in (StateKind.LIST, StateKind.MAP)
        self._keys: list[bytes] = []
        self._contents: list[Any] = []
        self._size = 0
        self._batches = AdaptiveBatches()

    def add(self, grouped_key: bytes, namespace: Any, content: Any) -> None:
        """Add the content of a grouped key (and namespace)."""
        if grouped_key is OUTSIDE:
            _refuse_outside(self.state.name)
        if self.discards:
            return
        self._keys.append(grouped_key + (_VOID if namespace is None else namespace.to_bytes()))
        self._contents.append(content)
        self._size += len(content) if self._many else 1
        if self._size >= self._batches.units:
            self.flush()

    def flush(self) -> None:
        """Convert the collected contents to a batch."""
        if not self._keys:
            return
        keys, contents, size = self._keys, self._contents, self._size
        self._keys, self._contents, self._size = [], [], 0
        buffer, start, end = spans_of(pa.array(keys, pa.binary()))
        try:
            entries = self._entries(contents, (buffer, start + _PREFIX, end))
        except SavepointError as error:
            raise error.with_facts(state=self.state.name, key=self._refused(keys, contents)) from None
        except RepeatedUserKey as repeated:
            raise DuplicateKeyError(
                "a map has user keys that are equal in its type",
                state=self.state.name,
                key=self._text(keys[repeated.row]),
                found=f"{repeated.user_key} again",
                remedy="put one of them only: Python does not find NaN keys again, and FLOAT keys have 32 bits",
            ) from None
        encoded = entries.entries
        rows = slice(None) if entries.row is None else entries.row
        batch = entry_batch(
            self.number,
            key_groups_of(buffer, start)[rows],
            binary_column(encoded.buffer, encoded.key_start, encoded.key_end),
            binary_column(encoded.value_buffer, encoded.value_start, encoded.value_end),
        )
        self._batches.made(size, batch.nbytes)
        self._done.append(batch)

    def _entries(self, contents: list[Any], keys: KeySpans) -> StateEntries:
        column = from_python(contents, self.kind, f"state {self.state.name!r}")
        return state_entries(self.state, column, None, keys)

    def _refused(self, keys: list[bytes], contents: list[Any]) -> str | None:
        """Return the key whose content does not fit the state's type; the current key may be a later one."""
        for key, content in zip(keys, contents, strict=True):
            try:
                self._entries([content], spans_of(pa.array([key], pa.binary())))
            except SavepointError:
                return self._text(key)
        return None

    def _text(self, grouped_key: bytes) -> str:
        """Return a key for errors; its bytes if it cannot be decoded."""
        if self._key is None or self._key.opaque_parts():
            return f"{grouped_key[_PREFIX:]!r:.500}"
        decoded = self._key.decode(Cursors.over([grouped_key[_PREFIX:]], options=PLAIN))
        return f"{to_python(decoded)[0]!r:.500}"


class TimerOutput:
    """Output of one timer queue: timestamp, key, namespace, without values."""

    def __init__(self, number: int, done: deque[pa.RecordBatch]) -> None:
        self.number = number
        self.discards = False
        self._done = done
        self._timers: list[bytes] = []

    def add(self, grouped_key: bytes, namespace: Any, content: Any) -> None:
        """Add the timers of a key: a dict with timestamps as keys."""
        group = grouped_key[:_PREFIX]
        key = grouped_key[_PREFIX:] + (_VOID if namespace is None else namespace.to_bytes())
        # The sign bit is flipped, so that bytes sort in the order of the numbers.
        self._timers.extend([group + _TIME.pack(timestamp + (1 << 63)) + key for timestamp in content])
        if len(self._timers) >= MOST:
            self.flush()

    def flush(self) -> None:
        """Convert the collected timers to a batch."""
        if not self._timers:
            return
        buffer, start, end = spans_of(pa.array(self._timers, pa.binary()))
        self._timers = []
        nothing = pa.array(repeat(b"", len(start)), pa.binary(), size=len(start))
        keys = binary_column(buffer, start + _PREFIX, end)
        self._done.append(entry_batch(self.number, key_groups_of(buffer, start), keys, nothing))


def _refuse_outside(state: str) -> None:
    """Raise OptionError for state that was changed while there was no key."""
    raise OptionError(
        "state of a key cannot be changed by a broadcast element, which has no key",
        state=state,
        remedy="change it in process_element, which can read the broadcast state",
    )


def key_groups_of(buffer: Any, start: Any) -> Ints:
    """Return the key groups of grouped keys, which are their first two bytes."""
    groups: Ints = (buffer[start].astype(np.int32) << 8) | buffer[start + 1]
    return groups


def entry_batch(number: int, key_groups: Ints, keys: pa.Array, values: pa.Array) -> pa.RecordBatch:
    """Return a batch of entries of one state."""
    state = fixed_array(pa.int32(), np.full(len(keys), number, np.int32))
    groups = fixed_array(pa.int32(), np.ascontiguousarray(key_groups))
    return pa.RecordBatch.from_arrays([state, groups, keys, values], schema=ENTRIES)


def drain(done: deque[pa.RecordBatch]) -> Any:
    """Yield and remove the finished batches."""
    while done:
        yield done.popleft()
